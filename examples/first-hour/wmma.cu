// 64 x 64 tiles of C = A B on the tensor cores, through the WMMA API. Its fragments are loaded from rows of LEAD halves:
// with -DLEAD=64 all rows of a tile start in the same bank; with -DLEAD=72 each starts four banks after the one above.

#include <mma.h>

#ifndef LEAD
#define LEAD 72
#endif

using namespace nvcuda;
constexpr int kTile = 64;

// a, b: n x n halves, row by row; c: n x n floats; n a multiple of 64. A block has four warps, each 16 rows of the tile.
__global__ void matmul(const half* __restrict__ a, const half* __restrict__ b, float* __restrict__ c, int n) {
  __shared__ __align__(32) half tile_a[kTile * LEAD], tile_b[kTile * LEAD];
  const int warp = threadIdx.x / 32, row = blockIdx.y * kTile, column = blockIdx.x * kTile;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[4];
  for (auto& sum : sums) wmma::fill_fragment(sum, 0.0f);
  for (int k = 0; k < n; k += kTile) {
    for (int i = threadIdx.x; i < kTile * kTile / 8; i += blockDim.x) {
      const int r = i / 8, piece = i % 8 * 8;
      *reinterpret_cast<int4*>(&tile_a[r * LEAD + piece]) = *reinterpret_cast<const int4*>(&a[(row + r) * n + k + piece]);
      *reinterpret_cast<int4*>(&tile_b[r * LEAD + piece]) = *reinterpret_cast<const int4*>(&b[(k + r) * n + column + piece]);
    }
    __syncthreads();
    for (int depth = 0; depth < kTile; depth += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
      wmma::load_matrix_sync(left, &tile_a[warp * 16 * LEAD + depth], LEAD);
      for (int j = 0; j < 4; ++j) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
        wmma::load_matrix_sync(right, &tile_b[depth * LEAD + j * 16], LEAD);
        wmma::mma_sync(sums[j], left, right, sums[j]);
      }
    }
    __syncthreads();
  }
  for (int j = 0; j < 4; ++j) {
    wmma::store_matrix_sync(&c[(row + warp * 16) * n + column + j * 16], sums[j], n, wmma::mem_row_major);
  }
}
