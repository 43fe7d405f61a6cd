// A transpose by partitions: the same thread layout divides the tile as it is, and transposed.

#include <cute/tensor.hpp>

using namespace cute;

using TileLayout = Layout<Shape<_32, _32>, Stride<_32, _1>>;

extern "C" __global__ void layouts_partitions(const float* in, float* out, int n) {
    __shared__ float smem[cosize_v<TileLayout>];
    Tensor tile = make_tensor(make_smem_ptr(smem), TileLayout{});
    Tensor turned = make_tensor(make_smem_ptr(smem), Layout<Shape<_32, _32>, Stride<_1, _32>>{});
    Tensor source = make_tensor(make_gmem_ptr(in), make_shape(n, n), make_stride(n, _1{}));
    Tensor target = make_tensor(make_gmem_ptr(out), make_shape(n, n), make_stride(n, _1{}));
    Tensor from = local_tile(source, make_shape(_32{}, _32{}), make_coord(blockIdx.y, blockIdx.x));
    Tensor to = local_tile(target, make_shape(_32{}, _32{}), make_coord(blockIdx.x, blockIdx.y));

    const auto threads = make_layout(make_shape(_4{}, _32{}), make_stride(_32{}, _1{}));
    copy(local_partition(from, threads, threadIdx.x), local_partition(tile, threads, threadIdx.x));
    __syncthreads();
    copy(local_partition(turned, threads, threadIdx.x), local_partition(to, threads, threadIdx.x));
}
