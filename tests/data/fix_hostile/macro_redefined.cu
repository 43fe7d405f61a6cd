// flat; harmless: AT is only used with its first meaning
#define AT(r, c) t[(r) * 32 + (c)]
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    AT(y, x) = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = AT(x, y);
}
#undef AT
#define AT(r, c) 0
