#include "cute.cuh"

using namespace cute;

extern "C" __global__ void __launch_bounds__(tiles::kThreads)
    cute_words_plain(const float *in, float *out, int n) {
    const auto layout = Layout<Shape<_128, _32>, Stride<_32, _1>>();
    tiles::transpose(in, out, n, layout, tiles::words_of_32());
}
