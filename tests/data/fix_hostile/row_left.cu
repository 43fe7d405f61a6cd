// rows; refused: its last index counts rows
__global__ void k(const float *in, float *out, int row) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = t[x][y] + t[0][row * 32 + x];  // WRONG
}
