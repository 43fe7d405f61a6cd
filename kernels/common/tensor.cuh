// Blackwell's tensor cores and tensor memory: tcgen05, one function per instruction. sm_100a. Never run on hardware.
//
// `group` is how many blocks work together: 1, or 2 for a pair, whose even block issues. PTX ISA, "tcgen05".
#pragma once

#include <cstdint>

namespace ptx {

// The descriptor of a K-major tile in shared memory: groups of 8 rows, `span` bytes wide, one after the other.
// PTX ISA, "tcgen05 Shared memory descriptor": start and stride in units of 16 bytes, version 1, swizzle.
template <int span> __device__ __forceinline__ uint64_t tile(uint32_t smem) {
    static_assert(span == 128 || span == 16, "the 128-byte swizzle, or none");
    constexpr uint64_t swizzle = span == 128 ? 2 : 0;
    return swizzle << 61 | 1ull << 46 | static_cast<uint64_t>(8 * span / 16) << 32 | (smem >> 4 & 0x3fff);
}

// The instruction descriptor: fp32 results; types 0 are fp16, of mxf8f6f4 e4m3. PTX ISA, "Instruction descriptor".
__host__ __device__ constexpr uint32_t instruction(int m, int n) {
    return 1u << 4 | static_cast<uint32_t>(n / 8) << 17 | static_cast<uint32_t>(m / 16) << 24;
}

// Of mxf8f6f4: which of the 4 scale factors in a word are those of this step.
__host__ __device__ constexpr uint32_t scaled_instruction(int m, int n, int step) {
    return static_cast<uint32_t>(step) << 4 | static_cast<uint32_t>(n / 8) << 17 | 1u << 23 |
           static_cast<uint32_t>(m / 16) << 24 | static_cast<uint32_t>(step) << 29;
}

// A warp takes columns of tensor memory, a power of two from 32 on; their address goes to shared memory.
template <int group, int columns> __device__ __forceinline__ void tensor_allocate(uint32_t smem) {
    asm volatile("tcgen05.alloc.cta_group::%1.sync.aligned.shared::cta.b32 [%0], %2;\n" ::"r"(smem), "n"(group),
                 "n"(columns)
                 : "memory");
}

// The same warp gives them back, and lets other blocks of the SM allocate.
template <int group, int columns> __device__ __forceinline__ void tensor_free(uint32_t tensor) {
    asm volatile("tcgen05.dealloc.cta_group::%1.sync.aligned.b32 %0, %2;\n"
                 "tcgen05.relinquish_alloc_permit.cta_group::%1.sync.aligned;\n" ::"r"(tensor),
                 "n"(group), "n"(columns));
}

// D += A B^T, or D = A B^T, issued by one thread.
template <int group>
__device__ __forceinline__ void tensor_multiply(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %4, 0;\n"
                 "tcgen05.mma.cta_group::%5.kind::f16 [%0], %1, %2, %3, p;\n}\n" ::"r"(d),
                 "l"(a), "l"(b), "r"(instruction), "r"(static_cast<uint32_t>(add)), "n"(group)
                 : "memory");
}

// The same of e4m3, each 32 values of a row times their scale factor in tensor memory.
__device__ __forceinline__ void tensor_multiply_scaled(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction,
                                                       uint32_t scales_a, uint32_t scales_b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %4, 0;\n"
                 "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [%0], %1, %2, %3, [%5], [%6], p;\n}\n" ::"r"(d),
                 "l"(a), "l"(b), "r"(instruction), "r"(static_cast<uint32_t>(add)), "r"(scales_a), "r"(scales_b)
                 : "memory");
}

// SMEM→TMEM: 32 rows of 16 bytes become 4 columns of 32 lanes, copied to all four parts of the lanes.
__device__ __forceinline__ void tensor_copy(uint32_t tensor, uint64_t rows) {
    asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;\n" ::"r"(tensor), "l"(rows) : "memory");
}

// Arrive at a barrier, of a pair at that of both blocks, once all tcgen05 that this thread has issued is complete.
template <int group> __device__ __forceinline__ void tensor_commit(uint32_t barrier) {
    if constexpr (group == 2) {
        const uint16_t both = 3;
        asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], "
                     "%1;\n" ::"r"(barrier),
                     "h"(both)
                     : "memory");
    } else {
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];\n" ::"r"(barrier)
                     : "memory");
    }
}

// Around barriers between threads: what others have done to tensor memory is done, and ordered after.
__device__ __forceinline__ void tensor_fence_before() {
    asm volatile("tcgen05.fence::before_thread_sync;\n" ::: "memory");
}

__device__ __forceinline__ void tensor_fence_after() {
    asm volatile("tcgen05.fence::after_thread_sync;\n" ::: "memory");
}

// TMEM→RF, 32 lanes by 8 columns: lane i of a warp gets lane i of its part of tensor memory.
__device__ __forceinline__ void tensor_load(float (&x)[8], uint32_t tensor) {
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];\n"
                 "tcgen05.wait::ld.sync.aligned;\n"
                 : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]), "=f"(x[4]), "=f"(x[5]), "=f"(x[6]), "=f"(x[7])
                 : "r"(tensor)
                 : "memory");
}

// GMEM→SMEM by TMA, as `load_box`. Of a pair, the barrier may be the even block's: its address has bit 24 cleared.
template <int group>
__device__ __forceinline__ void load_box_of_pair(uint32_t smem, const void *tensor_map, int x, int y, uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::%5 [%0], "
                 "[%1, {%2, %3}], [%4];\n" ::"r"(smem),
                 "l"(tensor_map), "r"(x), "r"(y), "r"(group == 2 ? barrier & 0xfeffffff : barrier), "n"(group)
                 : "memory");
}

} // namespace ptx
