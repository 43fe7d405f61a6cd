// flat; refused: it may leave its row
__global__ void k(const float *in, float *out, int n) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    int c = 0;
    while (n > 0) {
        n -= 1;
        c += 2;
    }
    out[y * 32 + x] = t[x % 16 * 32 + c];  // WRONG
}
