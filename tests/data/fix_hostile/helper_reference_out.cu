// flat; refused: may also be q, which is not this tile
__device__ void choose(const float *&p, const float *q) { p = q; }  // WRONG
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    const float *p = t;
    if (flag) choose(p, in);
    out[y * 32 + x] = p[x * 32 + y];
}
