// A transpose that subscripts CuTe tensors.

#include <cute/tensor.hpp>

using namespace cute;

extern "C" __global__ void layouts_elements(const float* in, float* out, int n) {
    __shared__ float smem[32 * 32];
    const auto layout = make_layout(make_shape(_32{}, _32{}), make_stride(_32{}, _1{}));
    Tensor tile = make_tensor(make_smem_ptr(smem), layout);
    Tensor source = make_tensor(make_gmem_ptr(in), make_shape(n, n), make_stride(n, _1{}));
    Tensor target = make_tensor(make_gmem_ptr(out), make_shape(n, n), make_stride(n, _1{}));

    const int x = threadIdx.x % 32, y = threadIdx.x / 32;
    for (int r = y; r < 32; r += 4) tile(r, x) = source(blockIdx.y * 32 + r, blockIdx.x * 32 + x);
    __syncthreads();
    for (int r = y; r < 32; r += 4) target(blockIdx.x * 32 + r, blockIdx.y * 32 + x) = tile(x, r);
}
