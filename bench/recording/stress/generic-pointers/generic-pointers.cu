// Pointers that only the run tells whether they point to shared or to global memory.
__device__ __noinline__ unsigned load(const unsigned *p, int i) { return p[i * 9 & 255]; }

extern "C" __global__ void generic_pointers(const unsigned *in, unsigned *out, int which) {
    __shared__ unsigned s[256];
    const int t = threadIdx.x;
    s[t] = in[255 - t];
    s[t + 128] = in[127 - t];
    __syncthreads();
    const unsigned *p = which ? s : in;
    unsigned x = load(p, t);
    x += load(t < 64 ? s : in, t);
    x += load(t % 2 ? s : in, t + 1);
    unsigned *q = which ? s : out + (gridDim.x + blockIdx.x) * 128;
    __syncthreads();
    q[t] = x;
    __syncthreads();
    out[blockIdx.x * 128 + t] = x + s[t ^ 17];
}
