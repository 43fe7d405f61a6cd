// The same with a warp that copies by cp.async and three that multiply, held together by mbarriers.
#include "ptx.cuh"

constexpr int kN = 128, kRows = 16, kDepth = 16, kStages = 2, kReaders = 64;

struct Stage {
    float a[kRows][kDepth], b[kDepth][kRows];
};

extern "C" __global__ void kernel(const float *in, float *out) {
    __shared__ __align__(128) Stage stages[kStages];
    __shared__ uint64_t barriers[2][kStages];
    const uint32_t full = __cvta_generic_to_shared(barriers[0]), empty = __cvta_generic_to_shared(barriers[1]);
    const int t = threadIdx.x, row = blockIdx.y * kRows, column = blockIdx.x * kRows;
    if (t == 0) {
        for (int stage = 0; stage < kStages; ++stage) {
            ptx::mbarrier_init(full + 8 * stage, 32);
            ptx::mbarrier_init(empty + 8 * stage, kReaders);
        }
    }
    __syncthreads();
    if (t >= kReaders) {
        const int lane = t - kReaders;
        for (int tile = 0; tile < kN / kDepth; ++tile) {
            const int stage = tile % kStages;
            ptx::mbarrier_wait(empty + 8 * stage, (tile / kStages + 1) % 2);
            for (int i = lane; i < 64; i += 32) {
                ptx::cp_async_16(__cvta_generic_to_shared(&stages[stage].a[i / 4][i % 4 * 4]),
                                 in + (row + i / 4) * kN + tile * kDepth + i % 4 * 4);
                ptx::cp_async_16(__cvta_generic_to_shared(&stages[stage].b[i / 4][i % 4 * 4]),
                                 in + kN * kN + (tile * kDepth + i / 4) * kN + column + i % 4 * 4);
            }
            ptx::cp_async_arrive(full + 8 * stage);
        }
    } else {
        float sum[4] = {};
        for (int tile = 0; tile < kN / kDepth; ++tile) {
            const int stage = tile % kStages;
            ptx::mbarrier_wait(full + 8 * stage, tile / kStages % 2);
            for (int k = 0; k < kDepth; ++k) {
                for (int i = 0; i < 4; ++i) {
                    sum[i] += stages[stage].a[t / 4][k] * stages[stage].b[k][t % 4 * 4 + i];
                }
            }
            ptx::mbarrier_arrive(empty + 8 * stage);
        }
        for (int i = 0; i < 4; ++i) {
            out[(row + t / 4) * kN + column + t % 4 * 4 + i] = sum[i];
        }
    }
}
