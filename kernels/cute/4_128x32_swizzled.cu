#include "cute.cuh"

using namespace cute;

extern "C" __global__ void __launch_bounds__(tiles::kThreads)
    cute_128x32_swizzled(const float *in, float *out, int n) {
    const auto layout = composition(Swizzle<3, 2, 3>(), Layout<Shape<_128, _32>, Stride<_32, _1>>());
    tiles::transpose(in, out, n, layout, tiles::rows_of_32());
}
