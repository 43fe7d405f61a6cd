#include "transpose.cuh"

extern "C" __global__ void __launch_bounds__(256) transpose_padded(const float *in, float *out, int n) {
    transpose::transpose<layout::Padded<transpose::kRowBytes, sizeof(float)>>(in, out, n);
}
