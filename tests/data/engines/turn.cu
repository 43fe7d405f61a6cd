extern "C" __global__ void turn(const float* x, float* y, int n) {
    __shared__ float tile[32][32];
    int column = blockIdx.x * 32 + threadIdx.x, first = blockIdx.y * 32 + threadIdx.y;
    for (int row = 0; row < 32; row += 8)
        if (column < n && first + row < n) tile[threadIdx.y + row][threadIdx.x] = x[(first + row) * (long)n + column];
    __syncthreads();
    for (int row = 0; row < 32; row += 8)
        y[(blockIdx.x * 32 + threadIdx.y + row) * gridDim.y * 32 + blockIdx.y * 32 + threadIdx.x] =
            tile[threadIdx.x][threadIdx.y + row];
}
