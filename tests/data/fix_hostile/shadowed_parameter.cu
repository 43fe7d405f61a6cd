// flat; written: __device__ float get(const float *t, int r, int c) { return t[r * 32 + c]; }
__device__ float get(const float *t, int r, int c) { return t[r * 32 + c]; }
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = t[x * 32 + y];
    if (flag) out[1] = get(in, 1, 2);
}
