// flat; harmless: the other declaration is not compiled
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
#ifdef NEVER
    const float *p = in;
#else
    const float *p = t;
#endif
    out[y * 32 + x] = p[x * 32 + y];
}
