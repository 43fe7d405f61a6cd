// flat; harmless: get is also called with in, which
__device__ float get(const float *p, int r, int c) { return p[r * 32 + c]; }
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = get(t, x, y);
    out[0] += flag * get(in, y, x);  // WRONG
}
