// flat; harmless: both elements of own are 0
__device__ float get(const float *p, int r, int c) { return p[r * 32 + c]; }
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = get(t, x, y);
    float own[64] = {1, 2};
    if (flag) out[1] = get(own, 1, 2);
}
