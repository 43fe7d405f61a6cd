// flat; harmless: is also called with
struct V {
    const float *p; int ld;
    __device__ float operator()(int r, int c) const { return p[r * ld + c]; }
};
__device__ float one(V v, int r, int c) { return v(r, c); }
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = one(V{t, 32}, x, y);
    if (flag) out[1] = one(V{in, 32}, 1, 2);  // WRONG
}
