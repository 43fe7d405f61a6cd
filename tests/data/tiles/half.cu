// Columns of 16-bit elements in rows of 128 bytes: 32 lanes in one bank.
extern "C" __global__ void half_columns(const unsigned short *x, unsigned short *y, int n) {
    __shared__ unsigned short tile[64][64];
    const int bx = blockIdx.x * 64, by = blockIdx.y * 64;
    for (int r = threadIdx.y; r < 64; r += 8)
        for (int c = threadIdx.x; c < 64; c += 32) tile[r][c] = x[(by + r) * n + bx + c];
    __syncthreads();
    for (int r = threadIdx.y; r < 64; r += 8)
        for (int c = threadIdx.x; c < 64; c += 32) y[(bx + r) * n + by + c] = tile[c][r];
}
