// Transposes 64 x 64 tiles of halves with ldmatrix.trans: its rows are 128 bytes apart.

#include <cuda_fp16.h>
#include <stdint.h>

__global__ void transpose_by_ldmatrix(const __half* in, __half* out, int n) {
    __shared__ __align__(16) __half tile[64][64];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int i = threadIdx.x; i < 64 * 8; i += 128) {
        const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&tile[i / 8][i % 8 * 8]));
        const __half* from = &in[(blockIdx.y * 64 + i / 8) * n + blockIdx.x * 64 + i % 8 * 8];
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    for (int column = warp * 16; column < warp * 16 + 16; column += 8) {
        for (int row = 0; row < 64; row += 32) {
            uint32_t r[4];
            const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&tile[row + lane][column]));
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                         : "r"(at)
                         : "memory");
            for (int j = 0; j < 4; ++j) {
                __half* to = &out[(blockIdx.x * 64 + column + lane / 4) * n + blockIdx.y * 64 + row + 8 * j];
                *reinterpret_cast<uint32_t*>(to + lane % 4 * 2) = r[j];
            }
        }
    }
}
