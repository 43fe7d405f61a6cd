#include "cute.cuh"

using namespace cute;

extern "C" __global__ void __launch_bounds__(tiles::kThreads)
    cute_8x8_plain(const float *in, float *out, int n) {
    const auto layout = Layout<Shape<_8, _8>, Stride<_1, _8>>();
    tiles::transpose(in, out, n, layout, tiles::columns_of_8());
}
