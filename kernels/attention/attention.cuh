// FlashAttention-2 forward, not causal, d_head 128, bf16 in and out, fp32 softmax and accumulation.
//
// One block of 4 warps computes 64 rows of O; each warp owns 16 of them and keeps its rows of Q and O in
// registers. K and V go through shared memory in tiles of 64 rows:
//
//     GMEM→SMEM   cp.async, 16 bytes per thread        Q, K, V
//     SMEM→RF     ldmatrix.x4 (.trans for V)           Q, K, V
//     RF→SMEM     4-byte stores                        O, into Q's tile
//     SMEM→GMEM   16-byte loads and stores             O
//
// Each of these steps asks the layout policy where a 16-byte chunk is; nothing else depends on the layout.
//
// The algorithm: Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning",
// 2023, algorithm 1. The fragments: PTX ISA, "Matrix Fragments for mma.m16n8k16" and "ldmatrix".
#pragma once

#include "fragment.cuh"
#include "layout.cuh"
#include "ptx.cuh"

namespace attention {

using bf16_bits = uint16_t; // storage only: the tensor cores are all that computes in bf16

constexpr int kHeadDim = 128;
constexpr int kRows = 64; // B_r = B_c: rows of Q per block, and of K and V per step
constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kBlocksPerSM = 2; // 215 registers per thread; 3 blocks leave 168, and ptxas schedules loads too late
constexpr int kWarpRows = kRows / kWarps;

constexpr int kRowBytes = kHeadDim * sizeof(bf16_bits);
constexpr int kChunksPerRow = kRowBytes / layout::kChunkBytes;

constexpr int kHeadSteps = kHeadDim / 16; // steps of 16 along d_head
constexpr int kKeySteps = kRows / 16;     // steps of 16 along the keys of a tile

struct Tiles {
    uint32_t q, k, v; // shared-memory addresses; O is staged where Q was
};

// When the loads of K and V are issued: at the start of the step that needs them, or as soon as the tile that they
// overwrite has been read, so that they overlap with the math.
enum class Loads { kAtStart, kEager };

// A warp's registers: its 16 rows of Q and O, and the running softmax of the two rows that each lane holds.
struct Warp {
    uint32_t q[kHeadSteps][4];
    float o[2 * kHeadSteps][4];
    float row_max[2];
    float row_sum[2];
};

using Scores = float[2 * kKeySteps][4]; // S = QK^T, then P, of 16 queries and 64 keys

// GMEM→SMEM: the 64 contiguous rows at `gmem`. 16 threads copy a row.
template <class Layout> __device__ __forceinline__ void load_tile(uint32_t tile, const bf16_bits *gmem) {
    const int row = threadIdx.x / kChunksPerRow;
    const int chunk = threadIdx.x % kChunksPerRow;
    const auto *source = reinterpret_cast<const char *>(gmem);
#pragma unroll
    for (int r = 0; r < kRows; r += kThreads / kChunksPerRow) {
        ptx::cp_async_16(tile + Layout::at(r + row, chunk),
                         source + (r + row) * kRowBytes + chunk * layout::kChunkBytes);
    }
    ptx::cp_async_commit();
}

template <class Layout> __device__ __forceinline__ void load_queries(Warp &warp, uint32_t tile) {
    const int first_row = threadIdx.x / 32 * kWarpRows;
#pragma unroll
    for (int d = 0; d < kHeadSteps; ++d) {
        ptx::ldmatrix_x4(warp.q[d], fragment<Layout>(tile, first_row, 16 * d));
    }
}

// S = QK^T, not yet scaled.
template <class Layout>
__device__ __forceinline__ void multiply_keys(Scores &s, const Warp &warp, uint32_t tile) {
#pragma unroll
    for (auto &fragment : s) {
        fragment[0] = fragment[1] = fragment[2] = fragment[3] = 0.0f;
    }
#pragma unroll
    for (int d = 0; d < kHeadSteps; ++d) {
#pragma unroll
        for (int key = 0; key < kKeySteps; ++key) {
            uint32_t k[4]; // (keys 0-7, 8-15) x (d 0-7), then x (d 8-15)
            ptx::ldmatrix_x4(k, fragment<Layout>(tile, 16 * key, 16 * d));
            ptx::mma_m16n8k16_bf16(s[2 * key], warp.q[d], k[0], k[2]);
            ptx::mma_m16n8k16_bf16(s[2 * key + 1], warp.q[d], k[1], k[3]);
        }
    }
}

// Maximum and sum over the four lanes that share a row of a fragment.
__device__ __forceinline__ float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

__device__ __forceinline__ float quad_sum(float x) {
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

// Online softmax of one tile: S becomes P = 2^(scale * S - max); O and the row sums so far are rescaled to the new
// maximum. `scale` is log2(e) / sqrt(d_head). Row sums are reduced across lanes only at the end.
__device__ __forceinline__ void softmax(Scores &s, Warp &warp, float scale) {
#pragma unroll
    for (int lane_row = 0; lane_row < 2; ++lane_row) { // a lane holds rows lane/4 (elements 0, 1) and lane/4 + 8 (2, 3)
        float tile_max = s[0][2 * lane_row];
#pragma unroll
        for (const auto &fragment : s) {
            tile_max = fmaxf(tile_max, fmaxf(fragment[2 * lane_row], fragment[2 * lane_row + 1]));
        }
        const float previous = warp.row_max[lane_row];
        warp.row_max[lane_row] = fmaxf(previous, quad_max(tile_max));
        const float shift = warp.row_max[lane_row] * scale;
        const float decay = ptx::exp2(previous * scale - shift);

        warp.row_sum[lane_row] *= decay;
#pragma unroll
        for (auto &fragment : warp.o) {
            fragment[2 * lane_row] *= decay;
            fragment[2 * lane_row + 1] *= decay;
        }
#pragma unroll
        for (auto &fragment : s) {
            fragment[2 * lane_row] = ptx::exp2(fragment[2 * lane_row] * scale - shift);
            fragment[2 * lane_row + 1] = ptx::exp2(fragment[2 * lane_row + 1] * scale - shift);
            warp.row_sum[lane_row] += fragment[2 * lane_row] + fragment[2 * lane_row + 1];
        }
    }
}

// O += PV. The accumulator fragments of S have the layout of P's A fragments: they only need rounding to bf16.
template <class Layout>
__device__ __forceinline__ void multiply_values(Warp &warp, const Scores &p, uint32_t tile) {
#pragma unroll
    for (int key = 0; key < kKeySteps; ++key) {
        const auto &left = p[2 * key];
        const auto &right = p[2 * key + 1];
        const uint32_t a[4] = {ptx::pack_bf16(left[0], left[1]), ptx::pack_bf16(left[2], left[3]),
                               ptx::pack_bf16(right[0], right[1]), ptx::pack_bf16(right[2], right[3])};
#pragma unroll
        for (int d = 0; d < kHeadSteps; ++d) {
            uint32_t v[4]; // (keys 0-7, 8-15) x (d 0-7), then x (d 8-15), transposed
            ptx::ldmatrix_x4_trans(v, fragment<Layout>(tile, 16 * key, 16 * d));
            ptx::mma_m16n8k16_bf16(warp.o[2 * d], a, v[0], v[1]);
            ptx::mma_m16n8k16_bf16(warp.o[2 * d + 1], a, v[2], v[3]);
        }
    }
}

// RF→SMEM: O / row sum, rounded, 4 bytes per lane. Four lanes write a chunk, eight rows make a wavefront.
template <class Layout> __device__ __forceinline__ void stage_output(char *tile, const Warp &warp) {
    const int lane = threadIdx.x % 32;
    const int first_row = threadIdx.x / 32 * kWarpRows;
#pragma unroll
    for (int lane_row = 0; lane_row < 2; ++lane_row) {
        const int row = first_row + 8 * lane_row + lane / 4;
        const float scale = 1.0f / quad_sum(warp.row_sum[lane_row]);
#pragma unroll
        for (int chunk = 0; chunk < kChunksPerRow; ++chunk) {
            const auto &o = warp.o[chunk];
            const int offset = Layout::at(row, chunk) + lane % 4 * sizeof(uint32_t);
            *reinterpret_cast<uint32_t *>(tile + offset) =
                ptx::pack_bf16(o[2 * lane_row] * scale, o[2 * lane_row + 1] * scale);
        }
    }
}

// SMEM→GMEM: each warp stores the 16 rows that it staged, 16 bytes per lane.
template <class Layout> __device__ __forceinline__ void store_output(bf16_bits *gmem, const char *tile) {
    const int lane = threadIdx.x % 32;
    const int row = threadIdx.x / 32 * kWarpRows + lane / kChunksPerRow;
    const int chunk = lane % kChunksPerRow;
#pragma unroll
    for (int r = row; r < row + kWarpRows; r += 32 / kChunksPerRow) {
        const uint4 data = *reinterpret_cast<const uint4 *>(tile + Layout::at(r, chunk));
        reinterpret_cast<uint4 *>(gmem)[r * kChunksPerRow + chunk] = data;
    }
}

// q, k, v, o: (batch, heads, seq, 128), contiguous. Grid (seq / 64, heads, batch), 128 threads.
// ReadLayout is Layout in every correct kernel. The tests build a wrong one: a tile written through one policy and
// read through another has to fail the check against the reference.
template <class Layout, Loads loads = Loads::kAtStart, class ReadLayout = Layout>
__device__ __forceinline__ void forward(const bf16_bits *q, const bf16_bits *k, const bf16_bits *v, bf16_bits *o,
                                        int seq) {
    constexpr int tile_bytes = Layout::bytes(kRows);
    __shared__ alignas(128) char smem[3 * tile_bytes];
    const auto base = static_cast<uint32_t>(__cvta_generic_to_shared(smem));
    const Tiles tiles = {base, base + tile_bytes, base + 2 * tile_bytes};

    const size_t head = (static_cast<size_t>(blockIdx.z) * gridDim.y + blockIdx.y) * seq * kHeadDim;
    const size_t block = head + static_cast<size_t>(blockIdx.x) * kRows * kHeadDim;
    const float scale = 1.4426950408889634f * 0.08838834764831845f; // log2(e) / sqrt(128)
    k += head;
    v += head;

    Warp warp;
#pragma unroll
    for (auto &fragment : warp.o) {
        fragment[0] = fragment[1] = fragment[2] = fragment[3] = 0.0f;
    }
    warp.row_max[0] = warp.row_max[1] = -INFINITY;
    warp.row_sum[0] = warp.row_sum[1] = 0.0f;

    load_tile<Layout>(tiles.q, q + block);
    ptx::cp_async_wait<0>();
    __syncthreads();
    load_queries<ReadLayout>(warp, tiles.q);

    if constexpr (loads == Loads::kEager) {
        load_tile<Layout>(tiles.k, k);
    }
    for (int key = 0; key < seq; key += kRows) {
        if constexpr (loads == Loads::kEager) {
            ptx::cp_async_wait<0>();
            __syncthreads(); // K has arrived, and every warp is done with the previous V
            load_tile<Layout>(tiles.v, v);
        } else {
            load_tile<Layout>(tiles.k, k);
            load_tile<Layout>(tiles.v, v);
            ptx::cp_async_wait<1>(); // K has arrived, V may still be in flight
            __syncthreads();
        }
        k += kRows * kHeadDim;
        v += kRows * kHeadDim;

        Scores s;
        multiply_keys<ReadLayout>(s, warp, tiles.k);
        softmax(s, warp, scale);

        ptx::cp_async_wait<0>();
        __syncthreads(); // V has arrived, and every warp is done with K
        if constexpr (loads == Loads::kEager) {
            if (key + kRows < seq) {
                load_tile<Layout>(tiles.k, k);
            }
        }
        multiply_values<ReadLayout>(warp, s, tiles.v);
        if constexpr (loads == Loads::kAtStart) {
            __syncthreads(); // every warp is done with V
        }
    }

    // A warp reads back only what it wrote itself, so a warp-level sync is enough.
    stage_output<Layout>(smem, warp);
    __syncwarp();
    store_output<Layout>(o + block, smem);
}

} // namespace attention
