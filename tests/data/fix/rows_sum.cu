// Sums the rows of a matrix, one thread per row: a warp loads 32 rows together, then each lane adds up its own.

#define FULL 0xffffffffu

__global__ void row_sums(const float *__restrict__ in, float *__restrict__ sums, int n) {
    __shared__ float part[4][32][32]; // a warp's 32 rows, 32 columns at a time

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = (blockIdx.x * 4 + warp) * 32;
    float sum = 0.0f;
    for (int first = 0; first < n; first += 32) {
        for (int r = 0; r < 32; ++r) part[warp][r][lane] = in[(row + r) * n + first + lane];
        __syncwarp(FULL);
        for (int c = 0; c < 32; ++c) sum += part[warp][lane][c];
        __syncwarp(FULL);
    }
    sums[row + lane] = sum;
}
