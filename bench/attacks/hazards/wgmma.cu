// The catalogue's wgmma kernels, in a design of theirs.
#include "wgmma.cuh"

#ifndef DESIGN
#define DESIGN kRing
#endif
using Design = wgmma::Design<128, wgmma::Step::DESIGN>;

extern "C" __global__ void __cluster_dims__(Design::kCluster) __launch_bounds__(Design::kThreads)
    kernel(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
           const __grid_constant__ Design::Output c, int n) {
    wgmma::gemm<Design>(a, b, c, n);
}
