// out = in^T, an n x n matrix of floats, through tiles with a CuTe layout: one TiledCopy in, one across the tile out.
//
// A kernel picks the layout of its tile in shared memory; nothing else here knows whether it is swizzled. That is the
// point of this family: `composition(Swizzle, Layout)` is transparent to both copies.
//
// Needs NVIDIA's CuTe headers (pip install nvidia-cutlass).
#pragma once

#include <cute/tensor.hpp>

namespace tiles {

using namespace cute;

constexpr int kThreads = 128;
constexpr int kRows = 128; // of `in` that a block transposes
constexpr int kColumns = 32;

// How a tile is copied: `threads` threads share it, `In` loads it from global memory, `Out` reads it from shared
// memory, both in (row, column) coordinates. If `in` is column-major, `out` is row-major, and vice versa.
template <int threads, bool column_major, class In, class Out> struct Journey {
    static constexpr int kThreadsPerTile = threads;
    static constexpr bool kColumnMajor = column_major;
    In in;
    Out out;
};

template <class Vector> using Atom = Copy_Atom<UniversalCopy<Vector>, float>;

// A warp's 8x8 tile, column-major. In: 8 bytes per lane down the columns. Out: 4 rows of 8 floats at a time.
__device__ __forceinline__ auto columns_of_8() {
    const auto in = make_tiled_copy(Atom<uint64_t>(), Layout<Shape<_4, _8>>(), Layout<Shape<_2, _1>>());
    const auto out = make_tiled_copy(Atom<float>(), Layout<Shape<_4, _8>, Stride<_8, _1>>(), Layout<Shape<_1, _1>>());
    return Journey<32, true, decltype(in), decltype(out)>{in, out};
}

// A block's 128x32 tile, column-major. In: 16 bytes per lane down the columns. Out: 4 floats of each of 32 columns.
__device__ __forceinline__ auto columns_of_128() {
    const auto in = make_tiled_copy(Atom<uint128_t>(), Layout<Shape<_32, _4>>(), Layout<Shape<_4, _1>>());
    const auto out =
        make_tiled_copy(Atom<uint128_t>(), Layout<Shape<_4, _32>, Stride<_32, _1>>(), Layout<Shape<_4, _1>>());
    return Journey<128, true, decltype(in), decltype(out)>{in, out};
}

// A block's 128x32 tile, row-major. In: 16 bytes per lane along the rows. Out: each thread reads its own row.
__device__ __forceinline__ auto rows_of_32() {
    const auto in =
        make_tiled_copy(Atom<uint128_t>(), Layout<Shape<_16, _8>, Stride<_8, _1>>(), Layout<Shape<_1, _4>>());
    const auto out = make_tiled_copy(Atom<uint128_t>(), Layout<Shape<_128, _1>>(), Layout<Shape<_1, _4>>());
    return Journey<128, false, decltype(in), decltype(out)>{in, out};
}

// A block's 128x32 tile, row-major, a float at a time. In: a warp reads a row. Out: a warp reads 32 rows of a column.
__device__ __forceinline__ auto words_of_32() {
    const auto in =
        make_tiled_copy(Atom<float>(), Layout<Shape<_4, _32>, Stride<_32, _1>>(), Layout<Shape<_1, _1>>());
    const auto out = make_tiled_copy(Atom<float>(), Layout<Shape<_32, _4>>(), Layout<Shape<_1, _1>>());
    return Journey<128, false, decltype(in), decltype(out)>{in, out};
}

// The matrix at `data`, column-major or row-major.
template <bool column_major, class T> __device__ __forceinline__ auto matrix(T *data, int n) {
    if constexpr (column_major) {
        return make_tensor(make_gmem_ptr(data), make_shape(n, n), make_stride(_1(), n));
    } else {
        return make_tensor(make_gmem_ptr(data), make_shape(n, n), make_stride(n, _1()));
    }
}

// in, out: (n, n). Grid (n / 128, n / 32), 128 threads: a block transposes 128 x 32 elements, tile by tile.
template <class Tile, class Travel>
__device__ __forceinline__ void transpose(const float *in, float *out, int n, Tile layout, Travel travel) {
    constexpr int groups = kThreads / Travel::kThreadsPerTile; // of threads that share a tile
    __shared__ alignas(1024) float smem[groups * cosize_v<Tile>];
    const int group = threadIdx.x / Travel::kThreadsPerTile;
    const auto tile = make_tensor(make_smem_ptr(smem + group * cosize_v<Tile>), layout);
    const auto copy_in = travel.in.get_thread_slice(threadIdx.x % Travel::kThreadsPerTile);
    const auto copy_out = travel.out.get_thread_slice(threadIdx.x % Travel::kThreadsPerTile);

    const auto part = make_shape(Int<kRows>(), Int<kColumns>());
    const auto place = make_coord(blockIdx.x, blockIdx.y);
    const auto from = flat_divide(local_tile(matrix<Travel::kColumnMajor>(in, n), part, place), shape(layout));
    const auto to = flat_divide(local_tile(matrix<!Travel::kColumnMajor>(out, n), part, place), shape(layout));
    constexpr int down = kRows / size<0>(Tile());
    constexpr int count = down * (kColumns / size<1>(Tile()));
    for (int i = group; i < count; i += groups) {
        const auto source = from(_, _, i % down, i / down);
        const auto target = to(_, _, i % down, i / down);
        copy(travel.in, copy_in.partition_S(source), copy_in.partition_D(tile));
        groups == 1 ? __syncthreads() : __syncwarp();
        const auto stored = copy_out.partition_S(tile);
        auto values = make_fragment_like(stored);
        copy(travel.out, stored, values);
        copy(values, copy_out.partition_S(target));
        groups == 1 ? __syncthreads() : __syncwarp(); // the tile may be overwritten
    }
}

} // namespace tiles
