// C = A B^T in halves on the tensor cores: cp.async fills tiles with rows of 64 halves, ldmatrix reads them.
// A warp computes 16 x 16 of C; a block has four warps and 32 x 32 of it.

#include <cuda_fp16.h>
#include <stdint.h>

constexpr int kRows = 32, kDepth = 64;

__device__ __forceinline__ void async16(uint32_t to, const __half* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ void ldmatrix4(uint32_t (&r)[4], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

__device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__global__ void gemm_nt(const __half* a, const __half* b, float* c, int n) {
    __shared__ __align__(128) __half tile_a[kRows * kDepth];
    __shared__ __align__(128) __half tile_b[kRows * kDepth];
    const uint32_t at_a = static_cast<uint32_t>(__cvta_generic_to_shared(tile_a));
    const uint32_t at_b = static_cast<uint32_t>(__cvta_generic_to_shared(tile_b));
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const int top = warp / 2 * 16, left = warp % 2 * 16;
    float sums[2][4] = {};

    for (int k0 = 0; k0 < n; k0 += kDepth) {
        for (int i = t; i < kRows * kDepth / 8; i += 128) {
            const int row = i / 8, piece = i % 8;
            async16(at_a + (row * kDepth + piece * 8) * 2, a + (blockIdx.y * kRows + row) * n + k0 + piece * 8);
            async16(at_b + (row * kDepth + piece * 8) * 2, b + (blockIdx.x * kRows + row) * n + k0 + piece * 8);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        for (int k = 0; k < kDepth; k += 16) {
            uint32_t fa[4], fb[4];
            ldmatrix4(fa, at_a + ((top + lane % 16) * kDepth + k + lane / 16 * 8) * 2);
            ldmatrix4(fb, at_b + ((left + lane % 16) * kDepth + k + lane / 16 * 8) * 2);
            mma(sums[0], fa, fb[0], fb[2]);
            mma(sums[1], fa, fb[1], fb[3]);
        }
        __syncthreads();
    }
    float* out = c + (blockIdx.y * kRows + top + lane / 4) * n + blockIdx.x * kRows + left + lane % 4 * 2;
    for (int j = 0; j < 2; ++j) {
        *reinterpret_cast<float2*>(out + j * 8) = make_float2(sums[j][0], sums[j][1]);
        *reinterpret_cast<float2*>(out + 8 * n + j * 8) = make_float2(sums[j][2], sums[j][3]);
    }
}
