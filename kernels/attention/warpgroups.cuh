// The attention of attention.cuh on wgmma and TMA. A block of three warpgroups computes 128 rows of O: one loads, and
// two multiply, 64 rows each. S and P stay in registers; K and V arrive in rings of tiles of 128 keys.
//
//     GMEM→SMEM   cp.async.bulk.tensor (TMA), boxes of 128 bytes, 128-byte swizzle     Q, K, V
//     SMEM→RF     none: wgmma reads Q, K and V where they are                           Q, K, V
//     RF→SMEM     stmatrix.x4, through the same swizzle                                 O, into Q's tile
//     SMEM→GMEM   cp.async.bulk.tensor                                                  O
//
// The overlap of the softmax with the products: Shah et al., "FlashAttention-3", 2024. sm_90a.
#pragma once

#include "attention.cuh"
#include "warpgroup.cuh"

#include <cuda.h>

namespace attention::warpgroups {

constexpr int kWarpgroup = 128; // threads
constexpr int kConsumers = 2;   // warpgroups that multiply
constexpr int kThreads = kWarpgroup * (1 + kConsumers);
constexpr int kQueries = 64;    // rows of Q and O per warpgroup
constexpr int kKeys = 128;      // rows of K and V per tile
constexpr int kStages = 2;      // tiles of K, and of V, in shared memory
constexpr int kBoxColumns = 64; // 128 bytes
constexpr int kBoxes = kHeadDim / kBoxColumns;
constexpr int kQueryBytes = kQueries * kRowBytes;
constexpr int kTileBytes = kKeys * kRowBytes;
constexpr int kSharedBytes = kConsumers * kQueryBytes + 2 * kStages * kTileBytes;

// How the products and the softmax follow each other: one by one; or the next tile's scores are multiplied ahead of this
// one's values, and two warpgroups take turns, so that the tensor cores always have work while a softmax runs.
enum class Schedule { kOneByOne, kPingPong };

using Fragment = float[64]; // a thread's elements of 64 x 128: S, P or O

// A ring of tiles of K or V; `full` and `empty` as in wgmma.cuh.
struct Ring {
    uint32_t tiles, full, empty; // shared-memory addresses

    __device__ __forceinline__ uint32_t tile(int i) const { return tiles + i % kStages * kTileBytes; }
    __device__ __forceinline__ uint32_t full_at(int i) const { return full + i % kStages * sizeof(uint64_t); }
    __device__ __forceinline__ uint32_t empty_at(int i) const { return empty + i % kStages * sizeof(uint64_t); }

    __device__ __forceinline__ void init() const {
        for (int stage = 0; stage < kStages; ++stage) {
            ptx::mbarrier_init(full_at(stage), 1);
            ptx::mbarrier_init(empty_at(stage), kConsumers * kWarpgroup / 32);
        }
    }

    // By one thread: the tile of keys i * 128 to i * 128 + 127 of a head. Rows past the last one are zero.
    __device__ __forceinline__ void load(const CUtensorMap &map, int i, int head) const {
        ptx::mbarrier_wait(empty_at(i), (i / kStages + 1) % 2); // all stages start empty
        ptx::mbarrier_arrive_expecting(full_at(i), kTileBytes);
#pragma unroll
        for (int box = 0; box < kBoxes; ++box) {
            ptx::load_box(tile(i) + box * kTileBytes / kBoxes, &map, box * kBoxColumns, i * kKeys, head, full_at(i));
        }
    }

    __device__ __forceinline__ void wait(int i) const { ptx::mbarrier_wait(full_at(i), i / kStages % 2); }

    // This warp's wgmma have read the tile.
    __device__ __forceinline__ void release(int i) const {
        if (threadIdx.x % 32 == 0) {
            ptx::mbarrier_arrive(empty_at(i));
        }
    }
};

// What a consumer has in registers: its rows of O, and the running softmax of the two rows that each lane holds.
struct Rows {
    Fragment o = {};
    float row_max[2] = {-INFINITY, -INFINITY};
    float row_sum[2] = {};
};

// S = QK^T, not yet scaled, as one group of wgmma.
__device__ __forceinline__ void multiply_keys(Fragment &s, uint32_t q, uint32_t k) {
    using Queries = ptx::Descriptor<128, kQueries>;
    using Keys = ptx::Descriptor<128, kKeys>;
#pragma unroll
    for (int d = 0; d < kHeadSteps; ++d) {
        ptx::wgmma_bf16(s, Queries::of(q + Queries::at(d)), Keys::of(k + Keys::at(d)), d > 0);
    }
    ptx::wgmma_commit();
}

using Probabilities = uint32_t[kKeys / 16][4]; // P in bf16, as fragments of A

// O += PV, as one group of wgmma.
__device__ __forceinline__ void multiply_values(Fragment &o, const Probabilities &p, uint32_t v) {
#pragma unroll
    for (int key = 0; key < kKeys / 16; ++key) {
        ptx::wgmma_bf16(o, p[key], ptx::TransposedDescriptor<kKeys>::of(v + key * 16 * 128));
    }
    ptx::wgmma_commit();
}

// S of the last tile: keys past the end get no weight.
__device__ __forceinline__ void mask(Fragment &s, int keys) {
#pragma unroll
    for (int i = 0; i < 64; ++i) {
        const int key = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
        s[i] = key < keys ? s[i] : -INFINITY;
    }
}

// Online softmax of one tile: S becomes 2^(scale * S - max). Returns by how much O has to shrink.
__device__ __forceinline__ void softmax(Fragment &s, Rows &rows, float (&decay)[2], float scale) {
#pragma unroll
    for (int half = 0; half < 2; ++half) { // a lane holds rows lane/4 and lane/4 + 8 of its warp's 16
        float tile_max = s[2 * half];
#pragma unroll
        for (int i = 2 * half; i < 64; i += 4) {
            tile_max = fmaxf(tile_max, fmaxf(s[i], s[i + 1]));
        }
        const float previous = rows.row_max[half];
        rows.row_max[half] = fmaxf(previous, quad_max(tile_max));
        const float shift = rows.row_max[half] * scale;
        decay[half] = ptx::exp2(previous * scale - shift);
        float sum = 0;
#pragma unroll
        for (int i = 2 * half; i < 64; i += 4) {
            s[i] = ptx::exp2(s[i] * scale - shift);
            s[i + 1] = ptx::exp2(s[i + 1] * scale - shift);
            sum += s[i] + s[i + 1];
        }
        rows.row_sum[half] = rows.row_sum[half] * decay[half] + sum;
    }
}

__device__ __forceinline__ void shrink(Fragment &o, const float (&decay)[2]) {
#pragma unroll
    for (int i = 0; i < 64; ++i) {
        o[i] *= decay[i / 2 % 2];
    }
}

// P, rounded to bf16: the accumulator's fragments of S have the layout of A's.
__device__ __forceinline__ void round_off(Probabilities &p, const Fragment &s) {
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        p[i / 4][i % 4] = ptx::pack_bf16(s[2 * i], s[2 * i + 1]);
    }
}

// RF→SMEM→GMEM: O / row sum. `tile` is the warpgroup's own part of Q's tile.
__device__ __forceinline__ void store(const CUtensorMap &map, Rows &rows, uint32_t tile, int row, int head,
                                      int warpgroup) {
    const float scale[2] = {1 / quad_sum(rows.row_sum[0]), 1 / quad_sum(rows.row_sum[1])};
    const int warp_row = threadIdx.x % kWarpgroup / 32 * 16;
    shrink(rows.o, scale);
#pragma unroll
    for (int d = 0; d < kHeadSteps; ++d) {
        const float *o = rows.o + 8 * d;
        const uint32_t block[4] = {ptx::pack_bf16(o[0], o[1]), ptx::pack_bf16(o[2], o[3]), ptx::pack_bf16(o[4], o[5]),
                                   ptx::pack_bf16(o[6], o[7])};
        ptx::stmatrix_x4(fragment<layout::TmaSwizzle<128, kQueries>>(tile, warp_row, 16 * d), block);
    }
    ptx::fence_async_shared();
    ptx::barrier_sync(1 + kConsumers + warpgroup, kWarpgroup);
    if (threadIdx.x % kWarpgroup == 0) {
#pragma unroll
        for (int box = 0; box < kBoxes; ++box) {
            ptx::store_box(&map, box * kBoxColumns, row, head, tile + box * kQueryBytes / kBoxes);
        }
        ptx::store_commit();
        ptx::store_wait<0>();
    }
}

// Wait for the warpgroup's turn at the tensor cores; let the other one have it.
__device__ __forceinline__ void await_turn(int warpgroup) {
    ptx::barrier_sync(1 + warpgroup, kConsumers * kWarpgroup);
}

__device__ __forceinline__ void pass_turn(int warpgroup) {
    ptx::barrier_arrive(1 + (warpgroup ^ 1), kConsumers * kWarpgroup);
}

// One tile after the other: scores, softmax, product.
__device__ __forceinline__ void one_by_one(Rows &rows, uint32_t q, const Ring &keys, const Ring &values, int seq,
                                           float scale) {
    const int tiles = (seq + kKeys - 1) / kKeys;
    for (int i = 0; i < tiles; ++i) {
        Fragment s;
        Probabilities p;
        float decay[2];
        keys.wait(i);
        ptx::wgmma_fence();
        multiply_keys(s, q, keys.tile(i));
        ptx::wgmma_wait<0>();
        keys.release(i);
        if (i == tiles - 1 && seq % kKeys) {
            mask(s, seq % kKeys);
        }
        softmax(s, rows, decay, scale);
        shrink(rows.o, decay);
        round_off(p, s);
        values.wait(i);
        ptx::wgmma_fence();
        multiply_values(rows.o, p, values.tile(i));
        ptx::wgmma_wait<0>();
        values.release(i);
    }
}

// The scores of a tile are multiplied ahead of the previous tile's values: both run during the softmax between them.
__device__ __forceinline__ void ping_pong(Rows &rows, uint32_t q, const Ring &keys, const Ring &values, int seq,
                                          float scale, int warpgroup) {
    const int tiles = (seq + kKeys - 1) / kKeys;
    Fragment s;
    Probabilities p;
    float decay[2];
    if (warpgroup == 1) {
        pass_turn(warpgroup); // the first turn is the other one's
    }
    keys.wait(0);
    await_turn(warpgroup);
    ptx::wgmma_fence();
    multiply_keys(s, q, keys.tile(0));
    pass_turn(warpgroup);
    ptx::wgmma_wait<0>();
    keys.release(0);
    if (tiles == 1 && seq % kKeys) {
        mask(s, seq % kKeys);
    }
    softmax(s, rows, decay, scale);
    round_off(p, s);
    for (int i = 1; i < tiles; ++i) {
        keys.wait(i);
        values.wait(i - 1);
        await_turn(warpgroup);
        ptx::wgmma_fence();
        multiply_keys(s, q, keys.tile(i));
        multiply_values(rows.o, p, values.tile(i - 1));
        pass_turn(warpgroup);
        ptx::wgmma_wait<1>(); // the scores
        keys.release(i);
        if (i == tiles - 1 && seq % kKeys) {
            mask(s, seq % kKeys);
        }
        softmax(s, rows, decay, scale);
        ptx::wgmma_wait<0>(); // O
        values.release(i - 1);
        shrink(rows.o, decay);
        round_off(p, s);
    }
    values.wait(tiles - 1);
    if (warpgroup == 0) {
        await_turn(warpgroup); // the turn that the other one passed last: none is left over
    }
    ptx::wgmma_fence();
    multiply_values(rows.o, p, values.tile(tiles - 1));
    ptx::wgmma_wait<0>();
}

// q, k, v, o: (batch * heads, seq, 128), as tensor maps with boxes of 64 rows (q, o) or 128 (k, v) by 64 columns and a
// 128-byte swizzle. Grid (seq / 128 rounded up, heads, batch), 384 threads.
template <Schedule schedule>
__device__ __forceinline__ void forward(const CUtensorMap &q, const CUtensorMap &k, const CUtensorMap &v,
                                        const CUtensorMap &o, int seq) {
    extern __shared__ __align__(1024) char smem[];
    __shared__ uint64_t barriers[1 + 4 * kStages];
    const auto queries = static_cast<uint32_t>(__cvta_generic_to_shared(smem));
    const auto arrived = static_cast<uint32_t>(__cvta_generic_to_shared(barriers));
    const uint32_t first = arrived + sizeof(uint64_t);
    const uint32_t ring_bytes = kStages * sizeof(uint64_t);
    const uint32_t tiles = queries + kConsumers * kQueryBytes;
    const Ring keys = {tiles, first, first + ring_bytes};
    const Ring values = {tiles + kStages * kTileBytes, first + 2 * ring_bytes, first + 3 * ring_bytes};
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(arrived, 1);
        keys.init();
        values.init();
        ptx::fence_mbarrier_init();
    }
    __syncthreads();

    const int head = blockIdx.z * gridDim.y + blockIdx.y;
    const int row = blockIdx.x * kConsumers * kQueries;
    if (threadIdx.x < kWarpgroup) {
        ptx::fewer_registers<24>();
        if (threadIdx.x == 0) {
            ptx::mbarrier_arrive_expecting(arrived, kConsumers * kQueryBytes);
#pragma unroll
            for (int box = 0; box < kConsumers * kBoxes; ++box) {
                ptx::load_box(queries + box * kQueryBytes / kBoxes, &q, box % kBoxes * kBoxColumns,
                              row + box / kBoxes * kQueries, head, arrived);
            }
            for (int i = 0; i < (seq + kKeys - 1) / kKeys; ++i) {
                keys.load(k, i, head);
                values.load(v, i, head);
            }
        }
    } else {
        ptx::more_registers<240>();
        const int warpgroup = threadIdx.x / kWarpgroup - 1;
        const uint32_t own = queries + warpgroup * kQueryBytes;
        const float scale = 1.4426950408889634f * 0.08838834764831845f; // log2(e) / sqrt(128)
        Rows rows;
        ptx::mbarrier_wait(arrived, 0);
        if constexpr (schedule == Schedule::kOneByOne) {
            one_by_one(rows, own, keys, values, seq, scale);
        } else {
            ping_pong(rows, own, keys, values, seq, scale, warpgroup);
        }
        store(o, rows, own, row + warpgroup * kQueries, head, warpgroup);
    }
}

} // namespace attention::warpgroups
