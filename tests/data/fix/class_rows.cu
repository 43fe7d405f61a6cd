// Sums along the rows of x; the tile is flat, and its operator[] returns a pointer to a row.
template <int H, int W>
struct Rows {
    float data[H * W];

    __device__ float* operator[](int row) { return data + row * W; }
    __device__ const float* operator[](int row) const { return &data[row * W]; }
};

using Tile = Rows<64, 32>;

__device__ float sum_of(const float* row) {
    float sum = 0;
    for (int i = 0; i < 32; ++i) sum += row[i];
    return sum;
}

__global__ void class_rows(const float* x, float* sums, int n) {
    __shared__ Tile tile;
    float sum = 0;
    for (int first = 0; first < n; first += 32) {
        for (int i = threadIdx.x; i < 64 * 32; i += 64)
            tile[i / 32][i % 32] = x[(blockIdx.x * 64 + i / 32) * n + first + i % 32];
        __syncthreads();
        sum += sum_of(tile[threadIdx.x]);
        __syncthreads();
    }
    sums[blockIdx.x * 64 + threadIdx.x] = sum;
}
