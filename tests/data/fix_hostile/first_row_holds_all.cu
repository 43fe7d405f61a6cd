// rows; refused: it may leave its row
__global__ void k(const float *in, float *out, int n) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    float sum = t[x][y];
    for (int i = 0; i < n; ++i)
        for (int ld = 32; ld >= (n ? 8 : 16); ld /= 2) sum += (t[0])[x * ld + y % 8];  // WRONG
    out[y * 32 + x] = sum;
}
