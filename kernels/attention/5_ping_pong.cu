#include "warpgroups.cuh"

extern "C" __global__ void __launch_bounds__(attention::warpgroups::kThreads, 1)
    kernel5(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
            const __grid_constant__ CUtensorMap v, const __grid_constant__ CUtensorMap o, int seq) {
    attention::warpgroups::forward<attention::warpgroups::Schedule::kPingPong>(q, k, v, o, seq);
}
