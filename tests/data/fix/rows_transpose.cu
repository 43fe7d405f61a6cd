// A matrix transposed through a tile: the rows of `in` are written to it, its columns are read.

constexpr int kTile = 32;

__global__ void transpose(const float* __restrict__ in, float* __restrict__ out, int n) {
    __shared__ float tile[32][32];

    int x = blockIdx.x * kTile + threadIdx.x;
    int y = blockIdx.y * kTile + threadIdx.y;
    for (int j = 0; j < kTile; j += blockDim.y)
        tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();

    x = blockIdx.y * kTile + threadIdx.x;
    y = blockIdx.x * kTile + threadIdx.y;
    for (int j = 0; j < kTile; j += blockDim.y)
        out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}
