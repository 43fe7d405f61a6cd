// A strip of tiles is transposed with two buffers: while one is read, the next is filled.

constexpr int kDim = 32;

__global__ void transpose_strip(const float* __restrict__ in, float* __restrict__ out, int n) {
    __shared__ float tile[2][kDim][kDim];

    const int x = threadIdx.x, y = threadIdx.y;
    const int top = blockIdx.x * kDim, count = n / kDim;
    for (int r = 0; r < kDim; r += 8) tile[0][y + r][x] = in[(top + y + r) * n + x];
    __syncthreads();
    for (int step = 0; step < count; ++step) {
        const int now = step & 1;
        if (step + 1 < count)
            for (int r = 0; r < kDim; r += 8)
                tile[now ^ 1][y + r][x] = in[(top + y + r) * n + (step + 1) * kDim + x];
        for (int r = 0; r < kDim; r += 8)
            out[(step * kDim + y + r) * n + top + x] = tile[now][x][y + r];
        __syncthreads();
    }
}
