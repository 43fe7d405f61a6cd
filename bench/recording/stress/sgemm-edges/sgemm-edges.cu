// A matrix product whose size is no multiple of the tile: 70 x 70 through tiles of 16.
extern "C" __global__ void sgemm_edges(const float *a, const float *b, float *c, int n) {
    __shared__ float tile_a[16][16], tile_b[16][17];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    float sum = 0.0f;
    for (int k = 0; k < n; k += 16) {
        tile_a[y][x] = row < n && k + x < n ? a[row * n + k + x] : 0.0f;
        tile_b[x][y] = k + y < n && column < n ? b[(k + y) * n + column] : 0.0f;
        __syncthreads();
        for (int i = 0; i < 16; ++i) {
            sum += tile_a[y][i] * tile_b[x][i];
        }
        __syncthreads();
    }
    if (row < n && column < n) {
        c[row * n + column] = sum;
    }
}
