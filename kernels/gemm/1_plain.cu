#include "gemm.cuh"

extern "C" __global__ void __launch_bounds__(gemm::kThreads, 1)
    gemm_plain(const gemm::half *a, const gemm::half *b, gemm::half *c, int n) {
    gemm::gemm<layout::RowMajor<gemm::kRowBytes>>(a, b, c, n);
}
