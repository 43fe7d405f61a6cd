// rows; harmless: a thread's own variable, and nothing else writes it
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    volatile int i = x;
    out[y * 32 + x] = t[i][y];
}
