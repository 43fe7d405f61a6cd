// Columns of doubles in a tile that begins in the middle of a bank row, after another array: 16 lanes of a phase.
extern "C" __global__ void double_columns(const double *x, double *y, int n) {
    __shared__ float before[16];
    __shared__ double tile[32][32];
    if (threadIdx.x < 16 && threadIdx.y == 0) before[threadIdx.x] = n;
    const int bx = blockIdx.x * 32, by = blockIdx.y * 32;
    for (int r = threadIdx.y; r < 32; r += 8) tile[r][threadIdx.x] = x[(by + r) * n + bx + threadIdx.x];
    __syncthreads();
    for (int r = threadIdx.y; r < 32; r += 8)
        y[(bx + r) * n + by + threadIdx.x] = tile[threadIdx.x][r] + before[r & 15];
}
