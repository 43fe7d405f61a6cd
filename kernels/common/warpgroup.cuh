// PTX instructions of sm_90a without a CUDA C++ intrinsic, one function each: warpgroup matrix products, clusters,
// tensor maps of three dimensions, stores by TMA.
#pragma once

#include <cstdint>

namespace ptx {

// The layout of a tile in shared memory whose rows are K, for wgmma (PTX ISA, "Matrix Descriptor"): boxes of `span`
// bytes by `rows` rows, back to back, as TMA writes them with CU_TENSOR_MAP_SWIZZLE_<span>B. A span of 16 has no
// swizzle: 8 rows of 16 bytes are a core matrix of 128 contiguous bytes.
template <int span, int rows> struct Descriptor {
    static constexpr uint64_t kMode = span == 128 ? 1 : span == 64 ? 2 : span == 32 ? 3 : 0;
    static constexpr uint64_t kNextRows = 8 * span;                   // SBO: from 8 rows to the next 8
    static constexpr uint64_t kNextChunk = span == 16 ? rows * span : 16; // LBO: along K; swizzled modes ignore it

    // The bytes at which column 16 * step of a row's 16-bit elements starts.
    static __device__ __forceinline__ constexpr uint32_t at(int step) {
        return 32 * step / span * (rows * span) + 32 * step % span;
    }

    static __device__ __forceinline__ uint64_t of(uint32_t smem) {
        return kMode << 62 | kNextRows / 16 << 32 | kNextChunk / 16 << 16 | (smem & 0x3FFFF) >> 4;
    }
};

// The same for a tile whose rows are N, in boxes of 128 bytes: 64 columns of N by `rows` rows of K.
template <int rows> struct TransposedDescriptor {
    static constexpr uint64_t kNextRows = 8 * 128;       // SBO: from 8 rows to the next 8
    static constexpr uint64_t kNextColumns = rows * 128; // LBO: from 64 columns to the next 64

    static __device__ __forceinline__ uint64_t of(uint32_t smem) {
        return uint64_t(1) << 62 | kNextRows / 16 << 32 | kNextColumns / 16 << 16 | (smem & 0x3FFFF) >> 4;
    }
};

// Before a warpgroup's first wgmma, and after any other access to its registers.
__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}

// Wait until at most `pending` of the committed groups are still running.
template <int pending> __device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(pending) : "memory");
}

#define PTX_4(x, i) "+f"(x[i]), "+f"(x[i + 1]), "+f"(x[i + 2]), "+f"(x[i + 3])
#define PTX_16(x, i) PTX_4(x, i), PTX_4(x, i + 4), PTX_4(x, i + 8), PTX_4(x, i + 12)
#define PTX_64(x, i) PTX_16(x, i), PTX_16(x, i + 16), PTX_16(x, i + 32), PTX_16(x, i + 48)
#define PTX_NAMES_64                                                                                                  \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                          \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                                \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                                \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define PTX_NAMES_128                                                                                                 \
    PTX_NAMES_64 ", "                                                                                                 \
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "                   \
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "                   \
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "       \
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// D (64 x N, fp32) = A B^T, plus D if `add`: 64 rows of A and N of B, 16 columns each (HGMMA). N is half as many as D's
// registers... of a thread; see PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16".
__device__ __forceinline__ void wgmma_f16(float (&d)[64], uint64_t a, uint64_t b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" PTX_NAMES_64 "}, %64, %65, p, 1, 1, 0, 0;\n}\n"
                 : PTX_64(d, 0)
                 : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}

__device__ __forceinline__ void wgmma_f16(float (&d)[128], uint64_t a, uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {" PTX_NAMES_128 "}, %128, %129, p, 1, 1, 0, 0;\n}\n"
        : PTX_64(d, 0), PTX_64(d, 64)
        : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}

// D (64 x 128, fp32) = A B^T, plus D if `add`: 64 rows of A and 128 of B, 16 columns each, bf16.
__device__ __forceinline__ void wgmma_bf16(float (&d)[64], uint64_t a, uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" PTX_NAMES_64 "}, %64, %65, p, 1, 1, 0, 0;\n}\n"
        : PTX_64(d, 0)
        : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}

// D (64 x 128, fp32) += A B: A (64 x 16, bf16) in registers, B (16 x 128) in rows of N.
__device__ __forceinline__ void wgmma_bf16(float (&d)[64], const uint32_t (&a)[4], uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" PTX_NAMES_64
                 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;\n"
                 : PTX_64(d, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// This thread gives up registers, or waits until it has as many; for all warps of a warpgroup together.
template <int count> __device__ __forceinline__ void fewer_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(count));
}

template <int count> __device__ __forceinline__ void more_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(count));
}

// A barrier among the threads of some warps; 0 is __syncthreads.
__device__ __forceinline__ void barrier_sync(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ void barrier_arrive(int barrier, int threads) {
    asm volatile("bar.arrive %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
}

// All threads of the cluster.
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::: "memory");
}

// Arrive at the barrier at that address in another block of the cluster, or in this one. Relaxed: it says that this
// thread has read something, not that it has written anything. A release would flush its stores to the GPU each time.
__device__ __forceinline__ void mbarrier_arrive_at(uint32_t barrier, uint32_t block) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [there];\n}\n" ::"r"(barrier),
                 "r"(block)
                 : "memory");
}

// load_box into the same place of several blocks of the cluster, a bit each; it counts at every one's barrier.
__device__ __forceinline__ void load_box_into(uint16_t blocks, uint32_t smem, const void *tensor_map, int x, int y,
                                              uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3}], [%4], %5;\n" ::"r"(smem),
                 "l"(tensor_map), "r"(x), "r"(y), "r"(barrier), "h"(blocks)
                 : "memory");
}

// Make this thread's stores to shared memory visible to TMA and to wgmma (the async proxy).
__device__ __forceinline__ void fence_async_shared() {
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}

// SMEM→GMEM by TMA: a box (UTMASTG.2D).
__device__ __forceinline__ void store_box(const void *tensor_map, int x, int y, uint32_t smem) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\n" ::"l"(tensor_map),
                 "r"(x), "r"(y), "r"(smem)
                 : "memory");
}

// The same for three dimensions, such as the rows and columns of one of many matrices.
__device__ __forceinline__ void load_box(uint32_t smem, const void *tensor_map, int x, int y, int z, uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
                 "[%1, {%2, %3, %4}], [%5];\n" ::"r"(smem),
                 "l"(tensor_map), "r"(x), "r"(y), "r"(z), "r"(barrier)
                 : "memory");
}

__device__ __forceinline__ void store_box(const void *tensor_map, int x, int y, int z, uint32_t smem) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];\n" ::"l"(tensor_map),
                 "r"(x), "r"(y), "r"(z), "r"(smem)
                 : "memory");
}

__device__ __forceinline__ void store_commit() {
    asm volatile("cp.async.bulk.commit_group;\n" ::: "memory");
}

// Wait until all but `pending` of this thread's committed stores have read shared memory.
template <int pending> __device__ __forceinline__ void store_wait() {
    asm volatile("cp.async.bulk.wait_group.read %0;\n" ::"n"(pending) : "memory");
}

// RF→SMEM, four 8x8 matrices of 16-bit elements (STSM.16.M88.4): the reverse of ldmatrix_x4.
__device__ __forceinline__ void stmatrix_x4(uint32_t smem, const uint32_t (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(smem), "r"(r[0]), "r"(r[1]),
                 "r"(r[2]), "r"(r[3])
                 : "memory");
}

} // namespace ptx
