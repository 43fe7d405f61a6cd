// A transpose by tiled copies: 16 bytes per thread along the rows in, a column of floats per warp out.

#include <cute/tensor.hpp>

using namespace cute;

extern "C" __global__ void layouts_copies(const float* in, float* out, int n) {
    __shared__ alignas(16) float smem[32 * 32];
    const auto rows = Layout<Shape<_32, _32>, Stride<_32, _1>>{};
    Tensor tile = make_tensor(make_smem_ptr(smem), rows);
    Tensor source = make_tensor(make_gmem_ptr(in), make_shape(n, n), make_stride(n, _1{}));
    Tensor target = make_tensor(make_gmem_ptr(out), make_shape(n, n), make_stride(_1{}, n));
    Tensor from = local_tile(source, make_shape(_32{}, _32{}), make_coord(blockIdx.y, blockIdx.x));
    Tensor to = local_tile(target, make_shape(_32{}, _32{}), make_coord(blockIdx.y, blockIdx.x));

    const auto fill = make_tiled_copy(Copy_Atom<UniversalCopy<uint128_t>, float>{},
                                      Layout<Shape<_16, _8>, Stride<_8, _1>>{}, Layout<Shape<_1, _4>>{});
    const auto drain = make_tiled_copy(Copy_Atom<UniversalCopy<float>, float>{},
                                       Layout<Shape<_32, _4>>{}, Layout<Shape<_1, _1>>{});
    const auto in_slice = fill.get_thread_slice(threadIdx.x);
    copy(fill, in_slice.partition_S(from), in_slice.partition_D(tile));
    __syncthreads();
    const auto out_slice = drain.get_thread_slice(threadIdx.x);
    copy(drain, out_slice.partition_S(tile), out_slice.partition_D(to));
}
