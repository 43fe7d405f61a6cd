#include <mma.h>
using namespace nvcuda;
__global__ void product(float* out, const half* in, int n) {
  __shared__ half a[256], b[256];
  for (int i = threadIdx.x; i < 256; i += 32) { a[i] = in[i]; b[i] = in[256 + (i ^ n)]; }
  __syncwarp();
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums;
  wmma::fill_fragment(sums, 0.0f);
  wmma::load_matrix_sync(left, a, 16);
  wmma::load_matrix_sync(right, b, 16);
  wmma::mma_sync(sums, left, right, sums);
  for (int k = 0; k < sums.num_elements; ++k) out[k * 32 + threadIdx.x] = __sinf(sums.x[k]);
}
