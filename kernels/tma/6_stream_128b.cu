#include "tma.cuh"

extern "C" __global__ void __launch_bounds__(tma::kThreads)
    tma_stream_128(const __grid_constant__ CUtensorMap map, const __grid_constant__ CUtensorMap out, int n) {
    tma::stream<layout::XorSwizzle<128>>(map, out, n);
}
