#include "tcgen05.cuh"

using Design = tcgen05::Design<tcgen05::Step::kStored>;

extern "C" __global__ void __cluster_dims__(Design::kGroup) __launch_bounds__(tcgen05::kThreads)
    tcgen05_stored(const __grid_constant__ Design::Input a, const __grid_constant__ Design::Input b, uint16_t *c, int n) {
    tcgen05::gemm<Design>(a, b, c, n);
}
