#include "wgmma.cuh"

using Design = wgmma::Design<128, wgmma::Step::kRing>;

extern "C" __global__ void __cluster_dims__(Design::kCluster) __launch_bounds__(Design::kThreads)
    wgmma_ring(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
            const __grid_constant__ Design::Output c, int n) {
    wgmma::gemm<Design>(a, b, c, n);
}
