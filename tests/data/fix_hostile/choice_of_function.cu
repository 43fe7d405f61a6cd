// flat; refused: t may also be b, which
__device__ const float *chosen(const float *a, const float *b, int second) { return second ? b : a; }  // WRONG
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = t[x * 32 + y];
    out[0] = chosen(t, in, flag)[x * 32 + y];
}
