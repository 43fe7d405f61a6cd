// A transpose through a shared-memory tile. With -DSWIZZLE=0 a warp reads a column that is all in one bank, a 32-way
// conflict; with -DSWIZZLE=1 the column index is XORed with the row index, and every access is conflict-free.

#ifndef SWIZZLE
#define SWIZZLE 1
#endif

constexpr int kTile = 32;

__device__ int place(int row, int column) {
#if SWIZZLE
  return row * kTile + (column ^ row);
#else
  return row * kTile + column;
#endif
}

// y = x^T for n x n matrices, n a multiple of 32; a block of 32 x 8 threads moves one 32 x 32 tile.
__global__ void transpose(const float* __restrict__ x, float* __restrict__ y, int n) {
  __shared__ float tile[kTile * kTile];
  const int left = blockIdx.x * kTile, top = blockIdx.y * kTile;
  for (int row = threadIdx.y; row < kTile; row += blockDim.y) {
    tile[place(row, threadIdx.x)] = x[(top + row) * n + left + threadIdx.x];
  }
  __syncthreads();
  for (int row = threadIdx.y; row < kTile; row += blockDim.y) {
    y[(left + row) * n + top + threadIdx.x] = tile[place(threadIdx.x, row)];
  }
}
