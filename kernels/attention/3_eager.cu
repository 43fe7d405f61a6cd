#include "attention.cuh"

extern "C" __global__ void __launch_bounds__(attention::kThreads, attention::kBlocksPerSM)
    kernel3(const attention::bf16_bits *q, const attention::bf16_bits *k, const attention::bf16_bits *v,
            attention::bf16_bits *o, int seq) {
    attention::forward<layout::XorSwizzle<attention::kRowBytes>, attention::Loads::kEager>(q, k, v, o, seq);
}
