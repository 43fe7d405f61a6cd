// PTX instructions without a CUDA C++ intrinsic, one function each. sm_80 and newer.
#pragma once

#include <cstdint>

namespace ptx {

// GMEM→SMEM, 16 bytes per thread, bypassing L1 (LDGSTS.E.BYPASS.128).
__device__ __forceinline__ void cp_async_16(uint32_t smem, const void *gmem) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(smem), "l"(gmem) : "memory");
}

// The same through L1 (LDGSTS.E.128).
__device__ __forceinline__ void cp_async_16_through_l1(uint32_t smem, const void *gmem) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;\n" ::"r"(smem), "l"(gmem) : "memory");
}

__device__ __forceinline__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}

// Wait until at most `pending` of this thread's committed groups are still in flight.
template <int pending> __device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(pending) : "memory");
}

// mbarriers: barriers in shared memory. A phase completes after as many arrivals as the barrier was initialised with;
// the phases' parity alternates 0, 1, 0, ...
__device__ __forceinline__ void mbarrier_init(uint32_t barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void mbarrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}

// Arrive once all cp.async that this thread has issued so far are complete.
__device__ __forceinline__ void cp_async_arrive(uint32_t barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];\n" ::"r"(barrier) : "memory");
}

// Wait until the phase with that parity is complete. On a fresh barrier, waiting for parity 1 returns at once.
__device__ __forceinline__ void mbarrier_wait(uint32_t barrier, uint32_t parity) {
    uint32_t done;
    do {
#if __CUDA_ARCH__ >= 900
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}\n"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
#else
        asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}\n"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
#endif
    } while (!done);
}

#if __CUDA_ARCH__ >= 900
// Make the barriers that this thread has initialised visible to TMA (the async proxy).
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}

// Arrive, and keep the phase open until TMA has written that many bytes.
__device__ __forceinline__ void mbarrier_arrive_expecting(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(bytes) : "memory");
}

// GMEM→SMEM by TMA: the box of a matrix that starts at column x, row y (UTMALDG.2D). The barrier counts its bytes.
__device__ __forceinline__ void load_box(uint32_t smem, const void *tensor_map, int x, int y, uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
                 "[%4];\n" ::"r"(smem), "l"(tensor_map), "r"(x), "r"(y), "r"(barrier)
                 : "memory");
}
#endif

// Loads and stores of exactly this width: volatile, or ptxas merges adjacent ones into wider ones.
__device__ __forceinline__ void ld_shared(float (&x)[1], uint32_t smem) {
    asm volatile("ld.volatile.shared.f32 %0, [%1];\n" : "=f"(x[0]) : "r"(smem) : "memory");
}

__device__ __forceinline__ void ld_shared(float (&x)[2], uint32_t smem) {
    asm volatile("ld.volatile.shared.v2.f32 {%0, %1}, [%2];\n" : "=f"(x[0]), "=f"(x[1]) : "r"(smem) : "memory");
}

__device__ __forceinline__ void ld_shared(float (&x)[4], uint32_t smem) {
    asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];\n"
                 : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
                 : "r"(smem)
                 : "memory");
}

__device__ __forceinline__ void st_shared(uint32_t smem, const float (&x)[1]) {
    asm volatile("st.volatile.shared.f32 [%0], %1;\n" ::"r"(smem), "f"(x[0]) : "memory");
}

__device__ __forceinline__ void st_shared(uint32_t smem, const float (&x)[2]) {
    asm volatile("st.volatile.shared.v2.f32 [%0], {%1, %2};\n" ::"r"(smem), "f"(x[0]), "f"(x[1]) : "memory");
}

__device__ __forceinline__ void st_shared(uint32_t smem, const float (&x)[4]) {
    asm volatile("st.volatile.shared.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"r"(smem), "f"(x[0]), "f"(x[1]), "f"(x[2]),
                 "f"(x[3])
                 : "memory");
}

// SMEM→RF, four 8x8 matrices of 16-bit elements (LDSM.16.M88.4). Lanes 8i..8i+7 address the rows of matrix i.
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], uint32_t smem) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem)
                 : "memory");
}

__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], uint32_t smem) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem)
                 : "memory");
}

// D (16x8, fp32) += A (16x16, bf16, row-major) * B (16x8, bf16, column-major) (HMMA.16816).
__device__ __forceinline__ void mma_m16n8k16_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                                  uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// D (16x8, fp32) += A (16x8, fp16, row-major) * B (8x8, fp16, column-major) (HMMA.1688).
__device__ __forceinline__ void mma_m16n8k8_f16(float (&d)[4], const uint32_t (&a)[2], uint32_t b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(b));
}

// D (16x8, fp32) += A (16x16, fp16, row-major) * B (16x8, fp16, column-major) (HMMA.16816).
__device__ __forceinline__ void mma_m16n8k16_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two floats rounded to bf16 (F2FP.BF16.F32.PACK_AB), `low` in the lower 16 bits.
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

// Two floats rounded to fp16 (F2FP.F16.F32.PACK_AB), `low` in the lower 16 bits.
__device__ __forceinline__ uint32_t pack_f16(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

// 2^x, one MUFU.EX2; 2^-inf is 0.
__device__ __forceinline__ float exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}

} // namespace ptx
