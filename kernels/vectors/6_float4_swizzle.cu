#include "vectors.cuh"

extern "C" __global__ void __launch_bounds__(vectors::kThreads) vectors_16_swizzle(const float *in, float *out) {
    vectors::sum_rows<4, layout::XorSwizzle<vectors::kRowBytes, 4 * sizeof(float)>>(in, out);
}
