// flat; refused: with another n, it may leave its row
__global__ void k(const float *in, float *out, int n) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < n; ++i) {
        sum += t[x % 16 * 32 + i];  // WRONG
    }
    out[y * 32 + x] = sum;
}
