#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void multiply(const half* a, float* c) {
    __shared__ half tile[64][PITCH];
    for (int i = threadIdx.x; i < 64 * 64; i += blockDim.x) tile[i / 64][i % 64] = a[i];
    __syncthreads();
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
    wmma::fill_fragment(sum, 0.0f);
    wmma::load_matrix_sync(left, tile[16 * (threadIdx.x / 32)], PITCH);
    wmma::load_matrix_sync(right, tile[0], PITCH);
    wmma::mma_sync(sum, left, right, sum);
    wmma::store_matrix_sync(c + 256 * (threadIdx.x / 32), sum, 16, wmma::mem_row_major);
}
