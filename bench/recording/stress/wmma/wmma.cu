// Tensor cores through nvcuda::wmma, which chooses how it reads shared memory by itself.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

extern "C" __global__ void wmma_tiles(const __half *a, const __half *b, float *c) {
    __shared__ alignas(32) __half tile_a[2][16 * 24], tile_b[2][16 * 16];
    __shared__ alignas(32) float tile_c[2][16 * 20];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    for (int i = lane; i < 256; i += 32) {
        tile_a[warp][i / 16 * 24 + i % 16] = a[i];
        tile_b[warp][i] = b[warp * 256 + i];
    }
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    wmma::load_matrix_sync(fa, tile_a[warp], 24);
    wmma::load_matrix_sync(fb, tile_b[warp], 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(tile_c[warp], fc, 20, wmma::mem_row_major);
    __syncwarp();
    for (int i = lane; i < 256; i += 32) {
        c[(blockIdx.x * 2 + warp) * 256 + i] = tile_c[warp][i / 16 * 20 + i % 16];
    }
}
