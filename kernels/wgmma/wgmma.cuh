// C = A B^T, n x n matrices of fp16 with fp32 accumulation, through wgmma, which reads both operands from shared memory.
//
//     GMEM→SMEM   cp.async.bulk.tensor (TMA), boxes of `kSpan` bytes by the tile's rows       A, B
//     SMEM→RF     none: wgmma's descriptors name the tiles and their swizzle                   A, B
//     RF→GMEM     4-byte stores, or through shared memory                                      C
//
// The variants differ in their `Design`: its swizzle, and how many `Step`s it takes.
//
// PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions", "cp.async.bulk.tensor". sm_90a.
#pragma once

#include "fragment.cuh"
#include "layout.cuh"
#include "ptx.cuh"
#include "warpgroup.cuh"

#include <cuda.h>
#include <type_traits>

namespace wgmma {

using fp16_bits = uint16_t; // storage only: the tensor cores are all that computes in fp16

constexpr int kWarpgroup = 128; // threads
constexpr int kRows = 128;      // of C per block
constexpr int kDepth = 64;      // columns of A and B per tile
constexpr int kSteps = kDepth / 16;
constexpr int kPiece = 64; // columns of C that a warpgroup stages at once: rows of 128 bytes
constexpr int kPieceBytes = 64 * kPiece * sizeof(fp16_bits);
constexpr int kPieces = 2; // in shared memory, per warpgroup

// The steps from a tile at a time to cuBLAS's speed; each one builds on all before it.
enum class Step {
    kInTurn,      // load a tile, multiply it
    kRing,        // load the next tiles during the math
    kWide,        // 128 x 256 elements of C instead of 128 x 128, by two warpgroups
    kSpecialised, // a warpgroup of its own loads, and leaves its registers to those that multiply
    kCluster,     // two blocks share a tile of B
    kPersistent,  // a block computes tile after tile
    kStaged,      // C goes through shared memory
    kMatrix,      // ... with stmatrix
    kStored,      // ... and from there by TMA
};

// What a kernel chooses: bytes of a box, which is the swizzle's width (16: none); the last of its steps; where C's
// 16-byte chunks go in shared memory.
template <int span, Step step = Step::kInTurn, class Layout = layout::RowMajor<128>> struct Design {
    using Staged = Layout;
    using Output = std::conditional_t<step == Step::kStored, CUtensorMap, fp16_bits *>; // C

    static __host__ __device__ constexpr bool has(Step other) { return step >= other; }

    static constexpr int kSpan = span;
    static constexpr int kStages = has(Step::kWide) ? 4 : has(Step::kRing) ? 2 : 1; // tiles in shared memory
    static constexpr int kColumns = has(Step::kWide) ? 256 : 128;                   // of C per block
    static constexpr int kConsumers = has(Step::kWide) ? 2 : 1;                     // warpgroups that multiply
    static constexpr int kThreads = kWarpgroup * (kConsumers + has(Step::kSpecialised));
    static constexpr int kCluster = has(Step::kCluster) ? 2 : 1; // blocks, one below the other
    static constexpr int kPanel = 2048 / kColumns; // tiles of C across, see `Tiles`
};

// A ring of tiles in shared memory, A before B. `full` completes once TMA has written a stage's bytes, `empty` once
// every warp that reads it, in every block of the cluster, is done with it.
template <class D> struct Ring {
    static constexpr int kBytesA = kRows * kDepth * sizeof(fp16_bits);
    static constexpr int kBytesB = D::kColumns * kDepth * sizeof(fp16_bits);
    static constexpr int kBytes = kBytesA + kBytesB;
    static constexpr int kReaders = D::kCluster * D::kConsumers * kWarpgroup / 32; // warps

    uint32_t tiles, full, empty; // shared-memory addresses

    __device__ __forceinline__ Ring(uint32_t smem, uint64_t (&barriers)[2][D::kStages])
        : tiles(smem), full(__cvta_generic_to_shared(barriers[0])), empty(__cvta_generic_to_shared(barriers[1])) {
        if (threadIdx.x == 0) {
            for (int stage = 0; stage < D::kStages; ++stage) {
                ptx::mbarrier_init(full + stage * sizeof(uint64_t), 1);
                ptx::mbarrier_init(empty + stage * sizeof(uint64_t), kReaders);
            }
            ptx::fence_mbarrier_init();
        }
        sync();
    }

    __device__ __forceinline__ uint32_t a(int stage) const { return tiles + stage * kBytes; }
    __device__ __forceinline__ uint32_t b(int stage) const { return tiles + stage * kBytes + kBytesA; }
    __device__ __forceinline__ uint32_t full_at(int stage) const { return full + stage * sizeof(uint64_t); }
    __device__ __forceinline__ uint32_t empty_at(int stage) const { return empty + stage * sizeof(uint64_t); }

    static __device__ __forceinline__ void sync() {
        if constexpr (D::kCluster > 1) {
            ptx::cluster_sync();
        } else {
            __syncthreads();
        }
    }
};

// A stage of the ring, and the parity of its barriers' phase.
template <class D> struct State {
    int stage;
    uint32_t parity;

    __device__ __forceinline__ void advance() {
        if (++stage == D::kStages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

__device__ __forceinline__ uint32_t block_in_cluster() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
    return rank;
}

// The tiles of C that a block computes, one after the other: clusters go down a panel of columns, then to the next.
template <class D> struct Tiles {
    int row, column; // of the first element
    int n, number, count;

    __device__ __forceinline__ explicit Tiles(int n_)
        : n(n_), number(blockIdx.x / D::kCluster), count(n / (kRows * D::kCluster) * (n / D::kColumns)) {}

    // Go to the next tile; false if there is none.
    __device__ __forceinline__ bool next() {
        if (number >= count) {
            return false;
        }
        const int rows = n / (kRows * D::kCluster); // of clusters
        const int left = number / (D::kPanel * rows) * D::kPanel;
        const int width = min(D::kPanel, n / D::kColumns - left);
        const int within = number - left * rows;
        row = within / width * (kRows * D::kCluster);
        if constexpr (D::kCluster > 1) {
            row += block_in_cluster() * kRows;
        }
        column = (left + within % width) * D::kColumns;
        number = D::has(Step::kPersistent) ? number + gridDim.x / D::kCluster : count;
        return true;
    }
};

// GMEM→SMEM, by one thread: the tiles of A and B with these first rows, columns k to k + 63. Blocks of a cluster load
// a part of B each, into all of them.
template <class D>
__device__ __forceinline__ void load_tiles(const Ring<D> &ring, int stage, const CUtensorMap &a, const CUtensorMap &b,
                                           int row, int column, int k) {
    constexpr int box = D::kSpan / sizeof(fp16_bits); // columns
    constexpr int part = D::kColumns / D::kCluster;   // rows of B
    const uint32_t full = ring.full_at(stage);
    ptx::mbarrier_arrive_expecting(full, Ring<D>::kBytes);
#pragma unroll
    for (int i = 0; i < kDepth / box; ++i) {
        ptx::load_box(ring.a(stage) + i * kRows * D::kSpan, &a, k + i * box, row, full);
        if constexpr (D::kCluster > 1) {
            const int rank = block_in_cluster();
            const uint32_t to = ring.b(stage) + (i * D::kColumns + rank * part) * D::kSpan;
            ptx::load_box_into((1 << D::kCluster) - 1, to, &b, k + i * box, column + rank * part, full);
        } else {
            ptx::load_box(ring.b(stage) + i * D::kColumns * D::kSpan, &b, k + i * box, column, full);
        }
    }
}

// A warpgroup's rows of C: 64 at a time.
template <class D> struct Accumulators {
    static constexpr int kBlocks = kRows / 64 / D::kConsumers;
    float x[kBlocks][D::kColumns / 2];
};

// C += A B^T for one stage, as one group of wgmma; it runs on while the warpgroup continues.
template <class D>
__device__ __forceinline__ void multiply(Accumulators<D> &c, const Ring<D> &ring, int stage, int warpgroup, bool add) {
    using A = ptx::Descriptor<D::kSpan, kRows>;
    using B = ptx::Descriptor<D::kSpan, D::kColumns>;
    const uint32_t first = ring.a(stage) + warpgroup * Accumulators<D>::kBlocks * 64 * D::kSpan;
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int i = 0; i < Accumulators<D>::kBlocks; ++i) {
            ptx::wgmma_f16(c.x[i], A::of(first + i * 64 * D::kSpan + A::at(step)), B::of(ring.b(stage) + B::at(step)),
                           add || step > 0);
        }
    }
    ptx::wgmma_commit();
}

// This warp has read the stage.
template <class D> __device__ __forceinline__ void release(const Ring<D> &ring, int stage) {
    const int lane = threadIdx.x % 32;
    if constexpr (D::kCluster > 1) {
        if (lane < D::kCluster) {
            ptx::mbarrier_arrive_at(ring.empty_at(stage), lane);
        }
    } else if (lane == 0) {
        ptx::mbarrier_arrive(ring.empty_at(stage));
    }
}

// RF→GMEM. Of 64 rows, a lane holds two adjacent elements of row lane/4 of its warp's 16, and two of row lane/4+8.
template <class D>
__device__ __forceinline__ void store_direct(fp16_bits *c, const Accumulators<D> &x, int row, int column, int n) {
    const int lane = threadIdx.x % 32;
    row += threadIdx.x % kWarpgroup / 32 * 16 + lane / 4;
    column += lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2 * Accumulators<D>::kBlocks; ++i) {
        fp16_bits *out = c + static_cast<size_t>(row + i / 2 * 64 + i % 2 * 8) * n + column;
#pragma unroll
        for (int j = 0; j < D::kColumns / 8; ++j) {
            const float *pair = &x.x[i / 2][4 * j + i % 2 * 2];
            *reinterpret_cast<uint32_t *>(out + 8 * j) = ptx::pack_f16(pair[0], pair[1]);
        }
    }
}

// RF→SMEM: columns 64 * piece to 64 * piece + 63 of 64 rows, rounded to fp16.
template <class D> __device__ __forceinline__ void stage_piece(uint32_t smem, const float *x, int piece) {
    const int lane = threadIdx.x % 32;
    const int warp_row = threadIdx.x % kWarpgroup / 32 * 16;
#pragma unroll
    for (int j = 0; j < kPiece / 16; ++j) { // blocks of 16 columns: 8 of a lane's elements
        const float *y = x + piece * (kPiece / 2) + 8 * j;
        const uint32_t block[4] = {ptx::pack_f16(y[0], y[1]), ptx::pack_f16(y[2], y[3]), ptx::pack_f16(y[4], y[5]),
                                   ptx::pack_f16(y[6], y[7])}; // upper left, lower left, upper right, lower right
        if constexpr (!D::has(Step::kMatrix)) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const uint32_t to = smem + D::Staged::at(warp_row + lane / 4 + i % 2 * 8, 2 * j + i / 2) + lane % 4 * 4;
                asm volatile("st.shared.b32 [%0], %1;\n" ::"r"(to), "r"(block[i]) : "memory");
            }
        } else {
            ptx::stmatrix_x4(fragment<typename D::Staged>(smem, warp_row, 16 * j), block);
        }
    }
}

// SMEM→GMEM: a warp's 16 rows of a piece, 16 bytes per lane.
template <class D> __device__ __forceinline__ void store_piece(fp16_bits *c, uint32_t smem, int n) {
    const int lane = threadIdx.x % 32;
    const int first = threadIdx.x % kWarpgroup / 32 * 16 + lane / 8;
#pragma unroll
    for (int row = 0; row < 16; row += 4) {
        float data[4];
        ptx::ld_shared(data, smem + D::Staged::at(first + row, lane % 8));
        *reinterpret_cast<float4 *>(c + static_cast<size_t>(first + row) * n + lane % 8 * 8) =
            make_float4(data[0], data[1], data[2], data[3]);
    }
}

// C through shared memory, 64 columns at a time. `out` is a pointer, or C's tensor map if TMA stores it.
template <class D>
__device__ __forceinline__ void store_staged(const typename D::Output &out, const Accumulators<D> &x, uint32_t staging, int row,
                                             int column, int n, int warpgroup) {
    static_assert(Accumulators<D>::kBlocks == 1);
    const bool leads = threadIdx.x % kWarpgroup == 0;
#pragma unroll
    for (int piece = 0; piece < D::kColumns / kPiece; ++piece) {
        const uint32_t smem = staging + piece % kPieces * kPieceBytes;
        if constexpr (D::has(Step::kStored)) {
            if (leads) {
                ptx::store_wait<kPieces - 1>(); // what this place held before has been read
            }
            ptx::barrier_sync(1 + warpgroup, kWarpgroup);
            stage_piece<D>(smem, x.x[0], piece);
            ptx::fence_async_shared();
            ptx::barrier_sync(1 + warpgroup, kWarpgroup);
            if (leads) {
                ptx::store_box(&out, column + piece * kPiece, row, smem);
                ptx::store_commit();
            }
        } else { // a warp reads what it wrote itself
            __syncwarp();
            stage_piece<D>(smem, x.x[0], piece);
            __syncwarp();
            store_piece<D>(out + static_cast<size_t>(row) * n + column + piece * kPiece, smem, n);
        }
    }
}

template <class D>
__device__ __forceinline__ void store(const typename D::Output &out, const Accumulators<D> &x, uint32_t staging, int row,
                                      int column, int n, int warpgroup) {
    row += warpgroup * Accumulators<D>::kBlocks * 64;
    if constexpr (D::has(Step::kStaged)) {
        store_staged<D>(out, x, staging + warpgroup * kPieces * kPieceBytes, row, column, n, warpgroup);
    } else {
        store_direct<D>(out, x, row, column, n);
    }
}

// A single tile in shared memory: load, wait, multiply, wait. The tensor cores idle while a tile is in flight.
template <class D>
__device__ __forceinline__ void in_turn(const CUtensorMap &a, const CUtensorMap &b, const typename D::Output &out,
                                        const Ring<D> &ring, int n) {
    const int warpgroup = threadIdx.x / kWarpgroup;
    Tiles<D> tile(n);
    tile.next();
    Accumulators<D> c;
    for (int k = 0; k < n; k += kDepth) {
        if (threadIdx.x == 0) {
            load_tiles<D>(ring, 0, a, b, tile.row, tile.column, k);
        }
        ptx::mbarrier_wait(ring.full, k / kDepth % 2);
        multiply<D>(c, ring, 0, warpgroup, k > 0);
        ptx::wgmma_wait<0>();
        __syncthreads(); // every warp's wgmma has read the tile
    }
    store<D>(out, c, 0, tile.row, tile.column, n, warpgroup);
}

// The warpgroup's first thread loads ahead: a tile goes where the one before last was.
template <class D>
__device__ __forceinline__ void ahead(const CUtensorMap &a, const CUtensorMap &b, const typename D::Output &out,
                                      const Ring<D> &ring, int n) {
    const int warpgroup = threadIdx.x / kWarpgroup;
    Tiles<D> tile(n);
    tile.next();
    Accumulators<D> c;
    State<D> read = {0, 0};
    State<D> write = {0, 1}; // all stages start empty
    int loaded = 0;
    const auto load = [&] {
        ptx::mbarrier_wait(ring.empty_at(write.stage), write.parity);
        load_tiles<D>(ring, write.stage, a, b, tile.row, tile.column, loaded);
        write.advance();
        loaded += kDepth;
    };
    if (threadIdx.x == 0) {
        while (loaded < min(n, (D::kStages - 1) * kDepth)) {
            load();
        }
    }
    int previous = 0;
    for (int k = 0; k < n; k += kDepth) {
        ptx::mbarrier_wait(ring.full_at(read.stage), read.parity);
        multiply<D>(c, ring, read.stage, warpgroup, k > 0);
        ptx::wgmma_wait<1>(); // the tile before this one has been read
        if (k > 0) {
            release<D>(ring, previous);
        }
        previous = read.stage;
        read.advance();
        if (threadIdx.x == 0 && loaded < n) {
            load();
        }
    }
    ptx::wgmma_wait<0>();
    store<D>(out, c, 0, tile.row, tile.column, n, warpgroup);
}

// One thread loads every tile of A and B that the block needs.
template <class D>
__device__ __forceinline__ void produce(const CUtensorMap &a, const CUtensorMap &b, const Ring<D> &ring, int n) {
    State<D> write = {0, 1}; // all stages start empty
    for (Tiles<D> tile(n); tile.next();) {
        for (int k = 0; k < n; k += kDepth) {
            ptx::mbarrier_wait(ring.empty_at(write.stage), write.parity);
            load_tiles<D>(ring, write.stage, a, b, tile.row, tile.column, k);
            write.advance();
        }
    }
}

// A warpgroup multiplies: while the tensor cores work on a stage, it waits for the one before, and releases it.
template <class D>
__device__ __forceinline__ void consume(const typename D::Output &out, const Ring<D> &ring, uint32_t staging, int n) {
    const int warpgroup = threadIdx.x / kWarpgroup - 1;
    State<D> read = {0, 0};
    for (Tiles<D> tile(n); tile.next();) {
        Accumulators<D> c;
        int previous = 0;
        for (int k = 0; k < n; k += kDepth) {
            ptx::mbarrier_wait(ring.full_at(read.stage), read.parity);
            multiply<D>(c, ring, read.stage, warpgroup, k > 0);
            ptx::wgmma_wait<1>();
            if (k > 0) {
                release<D>(ring, previous);
            }
            previous = read.stage;
            read.advance();
        }
        ptx::wgmma_wait<0>();
        release<D>(ring, previous);
        store<D>(out, c, staging, tile.row, tile.column, n, warpgroup);
    }
    if constexpr (D::has(Step::kStored)) {
        ptx::store_wait<0>();
    }
}

// a, b, c: (n, n); `a` and `b` describe A and B, with boxes of kSpan bytes by kRows rows of A, and by kColumns / kCluster
// rows of B. `out` is C, or its map with boxes of 64 x 64. A grid of a block per tile of C, or of any even number of
// persistent ones; kStages tiles of dynamic shared memory, and kPieces pieces per consumer if C is staged.
template <class D>
__device__ __forceinline__ void gemm(const CUtensorMap &a, const CUtensorMap &b, const typename D::Output &out, int n) {
    extern __shared__ __align__(1024) char smem[];
    __shared__ uint64_t barriers[2][D::kStages];
    const Ring<D> ring(static_cast<uint32_t>(__cvta_generic_to_shared(smem)), barriers);
    const uint32_t staging = ring.tiles + D::kStages * Ring<D>::kBytes;
    if constexpr (!D::has(Step::kRing)) {
        in_turn<D>(a, b, out, ring, n);
    } else if constexpr (!D::has(Step::kSpecialised)) {
        ahead<D>(a, b, out, ring, n);
    } else if (threadIdx.x < kWarpgroup) {
        ptx::fewer_registers<24>();
        if (threadIdx.x == 0) {
            produce<D>(a, b, ring, n);
        }
    } else {
        ptx::more_registers<240>();
        consume<D>(out, ring, staging, n);
    }
    if constexpr (D::kCluster > 1) {
        ptx::cluster_sync(); // no block ends while another may still signal it
    }
}

} // namespace wgmma
