// Refused: a bulk copy fills the tile, which no subscript in the source does.

#include <stdint.h>

__global__ void bulk_transpose(const float* in, float* out) {
    __shared__ alignas(128) float tile[32][32];
    __shared__ alignas(8) uint64_t arrived;
    const uint32_t barrier = static_cast<uint32_t>(__cvta_generic_to_shared(&arrived));
    const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(&tile[0][0]));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 4096;" ::"r"(barrier) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 4096, [%2];" ::"r"(to),
                     "l"(in + blockIdx.x * 1024), "r"(barrier)
                     : "memory");
    }
    __syncthreads();
    uint32_t done = 0;
    while (!done)
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}"
                     : "=r"(done)
                     : "r"(barrier)
                     : "memory");
    for (int r = 0; r < 32; ++r) out[blockIdx.x * 1024 + r * 32 + threadIdx.x] = tile[threadIdx.x][r];
}
