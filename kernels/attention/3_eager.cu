#include "attention.cuh"

extern "C" __global__ void __launch_bounds__(attention::kThreads, attention::kBlocksPerSM)
    kernel3(const attention::bf16 *q, const attention::bf16 *k, const attention::bf16 *v, attention::bf16 *o,
            int seq) {
    attention::forward<layout::XorSwizzle<attention::kRowBytes>, attention::Loads::kEager>(q, k, v, o, seq);
}
