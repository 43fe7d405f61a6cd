#include "tma.cuh"

extern "C" __global__ void __launch_bounds__(tma::kThreads)
    tma_32(const __grid_constant__ CUtensorMap map, tma::fp16_bits *out, int n) {
    tma::copy<layout::TmaSwizzle<32, tma::kTile>, 32>(map, out, n);
}
