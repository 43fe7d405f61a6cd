// A row comes by a bulk copy, is reversed in place by all threads, and leaves by another one; three rows a block.
#include "warpgroup.cuh"

constexpr int kThreads = 128, kRow = 512, kRows = 3;

extern "C" __global__ void kernel(const float *in, float *out) {
    __shared__ __align__(128) float row[kRow];
    __shared__ __align__(128) float result[kRow];
    __shared__ uint64_t barrier;
    const uint32_t full = __cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(full, 1);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    for (int i = 0; i < kRows; ++i) {
        const int at = (blockIdx.x * kRows + i) * kRow;
        if (threadIdx.x == 0) {
            ptx::mbarrier_arrive_expecting(full, sizeof(row));
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(
                             static_cast<uint32_t>(__cvta_generic_to_shared(row))),
                         "l"(in + at), "n"(kRow * 4), "r"(full)
                         : "memory");
            ptx::store_wait<0>();
        }
        __syncthreads();
        ptx::mbarrier_wait(full, i % 2);
        for (int j = threadIdx.x; j < kRow; j += kThreads) {
            result[kRow - 1 - j] = row[j] * 2;
        }
        ptx::fence_async_shared();
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n" ::"l"(out + at),
                         "r"(static_cast<uint32_t>(__cvta_generic_to_shared(result))), "n"(kRow * 4)
                         : "memory");
            ptx::store_commit();
        }
    }
    if (threadIdx.x == 0) {
        ptx::store_wait<0>();
    }
}
