// Copy of an n x n matrix of fp16 through 64x64 tiles of shared memory that TMA writes and ldmatrix reads.
//
//     GMEM→SMEM   cp.async.bulk.tensor, a box per instruction, by one thread     swizzled by hardware
//     SMEM→RF     ldmatrix.x4                                                    through the same XOR, in software
//     RF→GMEM     4-byte stores
//
// The hardware swizzles within spans of 32, 64 or 128 bytes, and a box is exactly one span wide. So the tile arrives in
// 4, 2 or 1 boxes, and a reader that does not undo the same swizzle gets the wrong elements.
//
// CUDA driver API, "Tensor Map Object Management"; PTX ISA, "cp.async.bulk.tensor". sm_90 and newer.
#pragma once

#include "fragment.cuh"
#include "layout.cuh"
#include "ptx.cuh"
#include "warpgroup.cuh"

#include <cuda.h>

namespace tma {

using fp16_bits = uint16_t; // storage only: nothing computes

constexpr int kTile = 64;
constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kTileBytes = kTile * kTile * sizeof(fp16_bits);

// GMEM→SMEM: the tile that starts at (row, column), in boxes of `span` bytes by 64 rows.
template <int span>
__device__ __forceinline__ void load_tile(uint32_t tile, const CUtensorMap &map, int row, int column,
                                          uint32_t arrived) {
    constexpr int box_bytes = span * kTile;
    ptx::mbarrier_arrive_expecting(arrived, kTileBytes);
#pragma unroll
    for (int box = 0; box < kTileBytes / box_bytes; ++box) {
        ptx::load_box(tile + box * box_bytes, &map, column + box * (span / sizeof(fp16_bits)), row, arrived);
    }
}

// RF→GMEM: a 16x16 block in ldmatrix.x4's order: upper left, lower left, upper right, lower right.
__device__ __forceinline__ void store_block(fp16_bits *out, const uint32_t (&block)[4], int n) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + i % 2 * 8;
        const int column = lane % 4 * 2 + i / 2 * 8;
        *reinterpret_cast<uint32_t *>(out + static_cast<size_t>(row) * n + column) = block[i];
    }
}

// in, out: (n, n); `map` describes `in`. Grid (n / 64, n / 64), 128 threads. `span` is the box width in bytes.
template <class Layout, int span>
__device__ __forceinline__ void copy(const CUtensorMap &map, fp16_bits *out, int n) {
    __shared__ alignas(1024) char smem[kTileBytes];
    __shared__ uint64_t barrier;
    const auto tile = static_cast<uint32_t>(__cvta_generic_to_shared(smem));
    const auto arrived = static_cast<uint32_t>(__cvta_generic_to_shared(&barrier));
    const int row = blockIdx.y * kTile;
    const int column = blockIdx.x * kTile;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(arrived, 1);
        ptx::fence_mbarrier_init();
        load_tile<span>(tile, map, row, column, arrived);
    }
    __syncthreads(); // the barrier is initialised, every thread may wait on it
    ptx::mbarrier_wait(arrived, 0);

    const int first = threadIdx.x / 32 * 16; // a warp reads 16 rows
    out += static_cast<size_t>(row + first) * n + column;
#pragma unroll
    for (int c = 0; c < kTile; c += 16) {
        uint32_t block[4];
        ptx::ldmatrix_x4(block, fragment<Layout>(tile, first, c));
        store_block(out + c, block, n);
    }
}

constexpr int kStages = 6; // tiles in flight per block of `stream`

// Both ways by TMA, several tiles in flight: a tile is read with ldmatrix and written back with stmatrix where it is,
// which stands for any work on its elements. in, out: (n, n), their maps with boxes of 64 x 64. Any grid: block i
// copies tiles i, i + gridDim.x, ... 128 threads; kStages tiles of dynamic shared memory.
template <class Layout>
__device__ __forceinline__ void stream(const CUtensorMap &in, const CUtensorMap &out, int n) {
    extern __shared__ __align__(1024) char smem[];
    __shared__ uint64_t barriers[kStages];
    const auto tiles = static_cast<uint32_t>(__cvta_generic_to_shared(smem));
    const auto arrived = static_cast<uint32_t>(__cvta_generic_to_shared(barriers));
    const int across = n / kTile;
    const int count = (across * across - blockIdx.x + gridDim.x - 1) / gridDim.x; // of this block's tiles
    const auto load = [&](int i) {
        const int tile = blockIdx.x + i * gridDim.x;
        load_tile<2 * kTile>(tiles + i % kStages * kTileBytes, in, tile / across * kTile, tile % across * kTile,
                             arrived + i % kStages * sizeof(uint64_t));
    };
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < kStages; ++stage) {
            ptx::mbarrier_init(arrived + stage * sizeof(uint64_t), 1);
        }
        ptx::fence_mbarrier_init();
        for (int i = 0; i < min(kStages - 1, count); ++i) {
            load(i);
        }
    }
    __syncthreads(); // the barriers are initialised, every thread may wait on them
    for (int i = 0; i < count; ++i) {
        const uint32_t tile = tiles + i % kStages * kTileBytes;
        ptx::mbarrier_wait(arrived + i % kStages * sizeof(uint64_t), i / kStages % 2);
#pragma unroll
        for (int c = 0; c < kTile; c += 16) {
            uint32_t block[4];
            const uint32_t place = fragment<Layout>(tile, threadIdx.x / 32 * 16, c);
            ptx::ldmatrix_x4(block, place);
            ptx::stmatrix_x4(place, block);
        }
        ptx::fence_async_shared();
        __syncthreads(); // every warp has written its rows
        if (threadIdx.x == 0) {
            const int number = blockIdx.x + i * gridDim.x;
            ptx::store_box(&out, number % across * kTile, number / across * kTile, tile);
            ptx::store_commit();
            if (i + kStages - 1 < count) {
                ptx::store_wait<1>(); // the tile before this one has left its place, which the next one takes
                load(i + kStages - 1);
            }
        }
    }
    if (threadIdx.x == 0) {
        ptx::store_wait<0>();
    }
}

} // namespace tma
