// Transpose x, through a tile that is a class: what fills it and what reads it are its methods.
template <typename T, int Rows, int Columns>
class Tile {
  public:
    __device__ T& at(int row, int column) { return cells[row][column]; }
    __device__ const T& at(int row, int column) const { return cells[row][column]; }

    __device__ void load(const T* from, int pitch) {
        for (int row = threadIdx.y; row < Rows; row += blockDim.y)
            this->cells[row][threadIdx.x] = from[row * pitch + threadIdx.x];
    }

  private:
    T cells[Rows][Columns];
};

template <int N>
__device__ void store_turned(const Tile<float, N, N>& tile, float* to, int pitch) {
    for (int row = threadIdx.y; row < N; row += blockDim.y) to[row * pitch + threadIdx.x] = tile.at(threadIdx.x, row);
}

__global__ void class_transpose(const float* x, float* y, int n) {
    __shared__ Tile<float, 32, 32> tile;
    const int column = blockIdx.x * 32, row = blockIdx.y * 32;

    tile.load(x + row * n + column, n);
    __syncthreads();
    store_turned(tile, y + column * n + row, n);
}
