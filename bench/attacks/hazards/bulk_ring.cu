// A warp loads rows by bulk copies into a ring of stages; four warps sum them up, in the order of the rows.
#include "warpgroup.cuh"

constexpr int kReaders = 128, kRow = 256, kStages = 3, kRows = 10;

extern "C" __global__ void kernel(const float *in, float *out) {
    __shared__ __align__(128) float rows[kStages][kRow];
    __shared__ uint64_t barriers[2][kStages];
    const uint32_t full = __cvta_generic_to_shared(barriers[0]), empty = __cvta_generic_to_shared(barriers[1]);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < kStages; ++stage) {
            ptx::mbarrier_init(full + 8 * stage, 1);
            ptx::mbarrier_init(empty + 8 * stage, kReaders / 32);
        }
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x >= kReaders) {
        if (threadIdx.x == kReaders) {
            for (int i = 0; i < kRows; ++i) {
                const int stage = i % kStages;
                ptx::mbarrier_wait(empty + 8 * stage, (i / kStages + 1) % 2);
                ptx::mbarrier_arrive_expecting(full + 8 * stage, sizeof(rows[0]));
                asm volatile(
                    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(
                        static_cast<uint32_t>(__cvta_generic_to_shared(rows[stage]))),
                    "l"(in + (blockIdx.x * kRows + i) * kRow), "n"(kRow * 4), "r"(full + 8 * stage)
                    : "memory");
            }
        }
    } else {
        float sum = 0;
        for (int i = 0; i < kRows; ++i) {
            const int stage = i % kStages;
            ptx::mbarrier_wait(full + 8 * stage, i / kStages % 2);
            sum = sum / 2 + rows[stage][threadIdx.x] - rows[stage][kRow - 1 - threadIdx.x];
            __syncwarp();
            if (threadIdx.x % 32 == 0) {
                ptx::mbarrier_arrive(empty + 8 * stage);
            }
        }
        out[blockIdx.x * kReaders + threadIdx.x] = sum;
    }
}
