// flat; refused: which is not this tile
__device__ const float *pick(const float *p, const float *q, int f) { return f ? q : p; }  // WRONG
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    const float *p = pick(t, in, flag);
    out[y * 32 + x] = p[x * 32 + y];
}
