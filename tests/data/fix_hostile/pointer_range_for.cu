// flat; refused: is not understood|not shown|initialises
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    for (const float *p : {(const float *)t, in}) out[y * 32 + x] += p[x * 32 + y];  // WRONG
}
