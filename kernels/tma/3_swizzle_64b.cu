#include "tma.cuh"

extern "C" __global__ void __launch_bounds__(tma::kThreads)
    tma_64(const __grid_constant__ CUtensorMap map, tma::fp16_bits *out, int n) {
    tma::copy<layout::TmaSwizzle<64, tma::kTile>, 64>(map, out, n);
}
