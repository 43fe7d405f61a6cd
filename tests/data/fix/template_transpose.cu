// A transpose for any type and tile size; instantiated for doubles in tiles of 32.

template <typename T, int Tile, int Rows>
__global__ void transpose_any(const T* __restrict__ in, T* __restrict__ out, int n) {
  __shared__ T tile[Tile][Tile];
  const int x = blockIdx.x * Tile, y = blockIdx.y * Tile;
#pragma unroll
  for (int j = 0; j < Tile; j += Rows)
    tile[threadIdx.y + j][threadIdx.x] = in[(y + threadIdx.y + j) * n + x + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int j = 0; j < Tile; j += Rows)
    out[(x + threadIdx.y + j) * n + y + threadIdx.x] = tile[threadIdx.x][threadIdx.y + j];
}

template __global__ void transpose_any<double, 32, 8>(const double*, double*, int);
