#include "transpose.cuh"

extern "C" __global__ void __launch_bounds__(256) transpose_xor(const float *in, float *out, int n) {
    transpose::transpose<layout::XorSwizzle<transpose::kRowBytes, sizeof(float)>>(in, out, n);
}
