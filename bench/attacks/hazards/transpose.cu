// Transposes 64 x 64 tiles of a matrix of 256 columns; each block two tiles, through the same shared memory.
constexpr int kTile = 32, kColumns = 256;

extern "C" __global__ void kernel(const float *in, float *out) {
    __shared__ float tile[kTile][kTile + 1];
    const int x = threadIdx.x, y = threadIdx.y;
    for (int part = 0; part < 2; ++part) {
        const int row = (2 * blockIdx.y + part) * kTile, column = blockIdx.x * kTile;
        for (int i = y; i < kTile; i += 8) {
            tile[i][x] = in[(row + i) * kColumns + column + x];
        }
        __syncthreads();
        for (int i = y; i < kTile; i += 8) {
            out[(column + i) * kColumns + row + x] = tile[x][i];
        }
        __syncthreads();
    }
}
