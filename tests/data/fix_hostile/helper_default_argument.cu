// flat; harmless: get is also called with table|get: |default|table
__device__ float table[1024];
__device__ float get(int r, int c, const float *p = table) { return p[r * 32 + c]; }  // WRONG
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = get(x, y, t);
    if (flag) out[1] = get(1, 2);
}
