// flat; refused: p may also be in, which
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    const float *p = flag ? in : t;  // WRONG
    out[y * 32 + x] = p[x * 32 + y];
}
