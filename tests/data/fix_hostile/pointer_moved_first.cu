// rows; refused: has no column
__global__ void k(const float *in, float *out, int row) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    const float *p = &t[row][0];
    out[y * 32 + x] = t[x][y] + *++p;  // WRONG
}
