// Warps pass rows to their neighbours: each warp waits for the one before it, by mbarriers, down a chain and back.
#include "ptx.cuh"

constexpr int kWarps = 4, kRounds = 3;

extern "C" __global__ void kernel(const float *in, float *out) {
    __shared__ float mail[kWarps][32];
    __shared__ uint64_t barriers[2][kWarps];
    const uint32_t full = __cvta_generic_to_shared(barriers[0]), empty = __cvta_generic_to_shared(barriers[1]);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, next = (warp + 1) % kWarps;
    if (threadIdx.x == 0) {
        for (int i = 0; i < kWarps; ++i) {
            ptx::mbarrier_init(full + 8 * i, 32);
            ptx::mbarrier_init(empty + 8 * i, 32);
        }
    }
    __syncthreads();
    float x = in[blockIdx.x * 32 * kWarps + threadIdx.x];
    for (int round = 0; round < kRounds; ++round) {
        ptx::mbarrier_wait(empty + 8 * next, (round + 1) % 2);
        mail[next][lane] = x;
        ptx::mbarrier_arrive(full + 8 * next);
        ptx::mbarrier_wait(full + 8 * warp, round % 2);
        x = x / 2 + mail[warp][31 - lane];
        ptx::mbarrier_arrive(empty + 8 * warp);
    }
    out[blockIdx.x * 32 * kWarps + threadIdx.x] = x;
}
