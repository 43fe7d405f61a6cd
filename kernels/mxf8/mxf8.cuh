// C = A B^T, n x n, e4m3 with a scale factor (a power of two, ue8m0) for each 32 values of a row, fp32 accumulation, fp16
// results, through tcgen05.mma.kind::mxf8f6f4. Never run on hardware.
//
//     GMEM→SMEM   cp.async.bulk.tensor (TMA)                              A, B
//     GMEM→SMEM   4 bytes per thread: a row's four scale factors          scales of A, of B
//     SMEM→TMEM   tcgen05.cp                                              scales of A, of B
//     SMEM→TMEM   tcgen05.mma                                             C
//     TMEM→GMEM   tcgen05.ld, 16-byte stores                              C
//
// The variants differ in how the threads of a warp take rows of scale factors. PTX ISA, "Block Scaling". sm_100a.
#pragma once

#include "ptx.cuh"
#include "tensor.cuh"
#include "warpgroup.cuh"

#include <cuda.h>

namespace mxf8 {

using fp16_bits = uint16_t; // storage only
constexpr int kThreads = 128;
constexpr int kRows = 128;  // of A, of B and of C per block
constexpr int kDepth = 128; // columns of A and B per tile, and bytes
constexpr int kTileBytes = kRows * kDepth;
constexpr int kScaleBytes = kRows * 4;                          // 4 per row and tile
constexpr int kScalesA = kRows, kScalesB = kRows + 4;           // columns of tensor memory behind those of C
constexpr int kAllocated = 256;                                 // 136 are needed

__device__ __forceinline__ uint32_t address(const void *shared) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

// In order: thread t takes row t, and a warp's words are 16 bytes apart.
struct InOrder {
    static __device__ __forceinline__ int row(int thread) { return thread; }
};

// Across: lanes 4i to 4i+3 take rows i, i+32, i+64, i+96 of a group of 8, whose words are one after the other.
struct Across {
    static __device__ __forceinline__ int row(int thread) { return thread / 32 * 8 + thread % 32 / 4 + thread % 4 * 32; }
};

// Where tcgen05.cp wants a row's four factors: 32 rows of 16 bytes, word w of which is for rows 32 w to 32 w + 31.
__device__ __forceinline__ int place(int row) { return row % 32 * 16 + row / 32 * 4; }

// GMEM→SMEM: the scale factors of 128 rows for a tile of 128 columns. `scales` points to the first row's.
template <class Order>
__device__ __forceinline__ void store_scales(uint32_t smem, const uint8_t *scales, int n) {
    const int row = Order::row(threadIdx.x);
    const uint32_t word = *reinterpret_cast<const uint32_t *>(scales + static_cast<size_t>(row) * (n / 32));
    asm volatile("st.shared.b32 [%0], %1;\n" ::"r"(smem + place(row)), "r"(word) : "memory");
}

// a, b: tensor maps of (n, n) e4m3 with boxes of 128 x 128, 128-byte swizzle; scales: (n, n / 32); c: (n, n). A block per
// 128 x 128 of C; two tiles and their scale factors of dynamic shared memory.
template <class Order>
__device__ __forceinline__ void gemm(const CUtensorMap &a, const CUtensorMap &b, const uint8_t *scales_a,
                                     const uint8_t *scales_b, fp16_bits *c, int n) {
    extern __shared__ __align__(1024) char smem[];
    __shared__ uint64_t barriers[2];
    __shared__ uint32_t tensor;
    const uint32_t full = address(&barriers[0]), multiplied = address(&barriers[1]);
    const uint32_t tiles = address(smem), scales = tiles + 2 * kTileBytes;
    if (threadIdx.x < 32) {
        ptx::tensor_allocate<1, kAllocated>(address(&tensor));
    }
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(full, 1);
        ptx::mbarrier_init(multiplied, 1);
        ptx::fence_mbarrier_init();
    }
    ptx::tensor_fence_before();
    __syncthreads();
    ptx::tensor_fence_after();
    const int row = blockIdx.x % (n / kRows) * kRows, column = blockIdx.x / (n / kRows) * kRows;
    for (int k = 0; k < n; k += kDepth) {
        if (threadIdx.x == 0) {
            ptx::mbarrier_arrive_expecting(full, 2 * kTileBytes);
            ptx::load_box(tiles, &a, k, row, full);
            ptx::load_box(tiles + kTileBytes, &b, k, column, full);
        }
        store_scales<Order>(scales, scales_a + static_cast<size_t>(row) * (n / 32) + k / 32, n);
        store_scales<Order>(scales + kScaleBytes, scales_b + static_cast<size_t>(column) * (n / 32) + k / 32, n);
        ptx::fence_async_shared(); // tcgen05.cp reads by the async proxy
        __syncthreads();
        ptx::mbarrier_wait(full, k / kDepth % 2);
        if (threadIdx.x == 0) {
            ptx::tensor_fence_after();
            ptx::tensor_copy(tensor + kScalesA, ptx::tile<16>(scales)); // in order with the tcgen05.mma that follow
            ptx::tensor_copy(tensor + kScalesB, ptx::tile<16>(scales + kScaleBytes));
#pragma unroll
            for (int step = 0; step < kDepth / 32; ++step) {
                ptx::tensor_multiply_scaled(tensor, ptx::tile<128>(tiles + step * 32),
                                            ptx::tile<128>(tiles + kTileBytes + step * 32),
                                            ptx::scaled_instruction(kRows, kRows, step), tensor + kScalesA,
                                            tensor + kScalesB, k > 0 || step > 0);
            }
            ptx::tensor_commit<1>(multiplied);
        }
        ptx::mbarrier_wait(multiplied, k / kDepth % 2);
    }
    ptx::tensor_fence_after();
    const uint32_t lanes = tensor + (threadIdx.x / 32 * 32 << 16);
    uint4 *to = reinterpret_cast<uint4 *>(c + static_cast<size_t>(row + threadIdx.x) * n + column);
    for (int i = 0; i < kRows; i += 8) {
        float x[8];
        ptx::tensor_load(x, lanes + i);
        to[i / 8] = make_uint4(ptx::pack_f16(x[0], x[1]), ptx::pack_f16(x[2], x[3]), ptx::pack_f16(x[4], x[5]),
                               ptx::pack_f16(x[6], x[7]));
    }
    ptx::tensor_fence_before();
    __syncthreads();
    ptx::tensor_fence_after();
    if (threadIdx.x < 32) {
        ptx::tensor_free<1, kAllocated>(tensor);
    }
}

} // namespace mxf8
