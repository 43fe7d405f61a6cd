// flat; harmless: AT is also called with in, which
#define AT(p, r, c) p[(r) * 32 + (c)]
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    AT(t, y, x) = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = AT(t, x, y);
    if (flag) out[1] = AT(in, 1, 2);  // WRONG
}
