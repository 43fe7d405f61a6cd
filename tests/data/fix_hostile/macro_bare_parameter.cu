// flat; refused: c of AT has no parentheses, and may be y | flag
#define AT(p, r, c) p[r * 32 + c]
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    AT(t, y, x) = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = AT(t, x, y);
    out[0] = AT(t, x, y | flag);  // WRONG
}
