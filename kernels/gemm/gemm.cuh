// C = A B^T, n x n matrices of fp16 with fp32 accumulation, through mma.m16n8k8 fed by ldmatrix.
//
// One block of 8 warps computes 256 x 128 elements of C, each warp 64 x 64 of them in registers. A and B go
// through shared memory in tiles of 64 columns. A row of a tile is 128 bytes, exactly one row of all 32 banks, so
// without a swizzle every row starts at bank 0.
//
//     GMEM→SMEM   cp.async, 16 bytes per thread       A, B
//     SMEM→RF     ldmatrix.x4                         A, B
//     RF→GMEM     4-byte stores                       C
//
// The fragments: PTX ISA, "Matrix Fragments for mma.m16n8k8" and "ldmatrix".
#pragma once

#include "fragment.cuh"
#include "layout.cuh"
#include "ptx.cuh"

namespace gemm {

using fp16_bits = uint16_t; // storage only: the tensor cores are all that computes in fp16

constexpr int kRows = 256; // of A, and of C, per block
constexpr int kColumns = 128; // of C per block: rows of B
constexpr int kDepth = 64; // columns of A and B per tile
constexpr int kWarpRows = 64; // of C per warp
constexpr int kWarpColumns = 64;
constexpr int kWarpsAcross = kColumns / kWarpColumns;
constexpr int kThreads = 32 * kWarpsAcross * (kRows / kWarpRows);

constexpr int kRowBytes = kDepth * sizeof(fp16_bits);
constexpr int kChunksPerRow = kRowBytes / layout::kChunkBytes;
constexpr int kSteps = kDepth / 16; // a tile is read 16 columns at a time
constexpr int kBlocksA = kWarpRows / 16; // of 16x16, that a warp reads in one such step
constexpr int kBlocksB = kWarpColumns / 16;
constexpr int kPanel = 16; // blocks across, see `BlockTile`

// When a tile is loaded: after the one before it has been multiplied, or while earlier tiles are being multiplied.
enum class Loads { kInTurn, kAhead };

constexpr int kStages = 3; // tiles in shared memory if they are loaded ahead; otherwise one

// Which tile of C a block computes. Blocks are rasterized in panels of 16 blocks across: blocks that run at the same
// time then share few rows of A and B, which fit in L2.
struct BlockTile {
    int row, column; // of the first element

    __device__ __forceinline__ BlockTile() {
        const int rows = gridDim.y;
        const int number = blockIdx.y * gridDim.x + blockIdx.x;
        const int left = number / (kPanel * rows) * kPanel;
        const int width = min(kPanel, static_cast<int>(gridDim.x) - left);
        const int within = number - left * rows;
        row = within / width * kRows;
        column = (left + within % width) * kColumns;
    }
};

// A warp's operands of one step: 64 rows of A and 64 of B, 16 columns each.
struct Operands {
    uint32_t a[kBlocksA][4];
    uint32_t b[kBlocksB][4];
};

using Accumulators = float[kBlocksA][2 * kBlocksB][4];

// A tile of A and of B in shared memory, B after A.
template <class Layout> struct Tile {
    static constexpr int kBytes = Layout::bytes(kRows) + Layout::bytes(kColumns);
    uint32_t a, b; // shared-memory addresses

    __device__ __forceinline__ explicit Tile(uint32_t address) : a(address), b(address + Layout::bytes(kRows)) {}
};

// GMEM→SMEM: `rows` rows of a matrix with n columns. 8 threads copy a row. If a copy bypasses L1, the line that it
// reads should land in one 128-byte line of shared memory: rows that straddle two would take up to 3 times the
// wavefronts, so they go through L1.
template <class Layout, int rows>
__device__ __forceinline__ void load_rows(uint32_t tile, const fp16_bits *gmem, int n) {
    const int row = threadIdx.x / kChunksPerRow;
    const int chunk = threadIdx.x % kChunksPerRow;
    const fp16_bits *source = gmem + static_cast<size_t>(row) * n + chunk * (layout::kChunkBytes / sizeof(fp16_bits));
    constexpr bool straddles = Layout::at(1, 0) % layout::kBankRowBytes != 0;
#pragma unroll
    for (int r = 0; r < rows; r += kThreads / kChunksPerRow) {
        const uint32_t to = tile + Layout::at(r + row, chunk);
        const fp16_bits *from = source + static_cast<size_t>(r) * n;
        straddles ? ptx::cp_async_16_through_l1(to, from) : ptx::cp_async_16(to, from);
    }
}

template <class Layout>
__device__ __forceinline__ void load_tile(Tile<Layout> tile, const fp16_bits *a, const fp16_bits *b, int n) {
    load_rows<Layout, kRows>(tile.a, a, n);
    load_rows<Layout, kColumns>(tile.b, b, n);
}

// SMEM→RF: the warp's operands of one step.
template <class Layout> __device__ __forceinline__ void load_operands(Operands &x, Tile<Layout> tile, int step) {
    const int warp = threadIdx.x / 32;
    const int row = warp / kWarpsAcross * kWarpRows;
    const int column = warp % kWarpsAcross * kWarpColumns;
#pragma unroll
    for (int i = 0; i < kBlocksA; ++i) {
        ptx::ldmatrix_x4(x.a[i], fragment<Layout>(tile.a, row + 16 * i, 16 * step));
    }
#pragma unroll
    for (int i = 0; i < kBlocksB; ++i) {
        ptx::ldmatrix_x4(x.b[i], fragment<Layout>(tile.b, column + 16 * i, 16 * step));
    }
}

// 64 x 64 elements of C += 16 columns of A times 16 of B, with m16n8k8 in two steps of 8 or with m16n8k16 at once.
template <int depth> __device__ __forceinline__ void multiply(Accumulators &c, const Operands &x) {
#pragma unroll
    for (int k = 0; k < 16; k += depth) {
#pragma unroll
        for (int i = 0; i < kBlocksA; ++i) {
#pragma unroll
            for (int j = 0; j < 2 * kBlocksB; ++j) {
                const auto &b = x.b[j / 2];
                if constexpr (depth == 8) {
                    const uint32_t a[2] = {x.a[i][k / 4], x.a[i][k / 4 + 1]};
                    ptx::mma_m16n8k8_f16(c[i][j], a, b[k / 4 + j % 2]);
                } else {
                    ptx::mma_m16n8k16_f16(c[i][j], x.a[i], b[j % 2], b[2 + j % 2]);
                }
            }
        }
    }
}

// RF→GMEM: rounded to fp16. Of a fragment, a lane holds two adjacent elements of row lane/4 and two of row lane/4+8.
__device__ __forceinline__ void store(fp16_bits *c, const Accumulators &x, BlockTile block, int n) {
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int row = block.row + warp / kWarpsAcross * kWarpRows + lane / 4;
    const int column = block.column + warp % kWarpsAcross * kWarpColumns + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2 * kBlocksA; ++i) {
        fp16_bits *out = c + static_cast<size_t>(row + 8 * i) * n + column;
#pragma unroll
        for (int j = 0; j < 2 * kBlocksB; ++j) {
            const float *pair = &x[i / 2][j][i % 2 * 2];
            *reinterpret_cast<uint32_t *>(out + 8 * j) = ptx::pack_f16(pair[0], pair[1]);
        }
    }
}

// Load, wait, multiply, wait: the tensor cores idle while a tile is in flight.
template <class Layout, int depth>
__device__ __forceinline__ void in_turn(Accumulators &c, uint32_t smem, const fp16_bits *a, const fp16_bits *b, int n) {
    const Tile<Layout> tile(smem);
    for (int k = 0; k < n; k += kDepth) {
        load_tile(tile, a + k, b + k, n);
        ptx::cp_async_commit();
        ptx::cp_async_wait<0>();
        __syncthreads(); // the tile has arrived
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            Operands x;
            load_operands(x, tile, step);
            multiply<depth>(c, x);
        }
        __syncthreads(); // every warp is done with it
    }
}

// A stage of the ring, and the parity of its barriers' phase.
struct PipelineState {
    int stage;
    uint32_t parity;

    __device__ __forceinline__ void advance() {
        if (++stage == kStages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

// A tile of A and of B in global memory.
struct GlobalTile {
    const fp16_bits *a, *b;
    int n; // elements in a row of A, and of B

    __device__ __forceinline__ void advance() {
        a += kDepth;
        b += kDepth;
    }
};

// A ring of tiles in shared memory. Each stage has two barriers: `full` completes once every thread's copies into it
// have arrived, `empty` once every warp has read it. Warps wait for data, never for each other.
template <class Layout> struct Ring {
    uint32_t tiles, full, empty; // shared-memory addresses
    PipelineState read = {0, 0};  // the tile to read next
    PipelineState write = {0, 1}; // the tile to load next: all stages start empty

    __device__ __forceinline__ Ring(uint32_t smem, uint64_t (&barriers)[2][kStages])
        : tiles(smem), full(__cvta_generic_to_shared(barriers[0])), empty(__cvta_generic_to_shared(barriers[1])) {
        if (threadIdx.x == 0) {
            for (int stage = 0; stage < kStages; ++stage) {
                ptx::mbarrier_init(full + stage * sizeof(uint64_t), kThreads);
                ptx::mbarrier_init(empty + stage * sizeof(uint64_t), kThreads);
            }
        }
        __syncthreads();
    }

    __device__ __forceinline__ Tile<Layout> tile(int stage) const {
        return Tile<Layout>(tiles + stage * Tile<Layout>::kBytes);
    }

    __device__ __forceinline__ void load(const GlobalTile &from) {
        ptx::mbarrier_wait(empty + write.stage * sizeof(uint64_t), write.parity);
        load_tile(tile(write.stage), from.a, from.b, from.n);
        ptx::cp_async_arrive(full + write.stage * sizeof(uint64_t));
        write.advance();
    }

    __device__ __forceinline__ void wait() const {
        ptx::mbarrier_wait(full + read.stage * sizeof(uint64_t), read.parity);
    }

    // The warp has read the tile.
    __device__ __forceinline__ void release() {
        ptx::mbarrier_arrive(empty + read.stage * sizeof(uint64_t));
        read.advance();
    }
};

// Multiply one tile, whose first operands are in x[0] already, and load the first operands of the tile after it.
// `remaining` tiles follow this one; kStages - 1 stands for that many or more, so that there is one to load.
template <int remaining, int depth, class Layout>
__device__ __forceinline__ void multiply_tile(Accumulators &c, Operands (&x)[2], Ring<Layout> &ring, GlobalTile &next) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        if (step == kSteps - 1) {
            ring.release();
            if constexpr (remaining > 0) {
                ring.wait();
            }
        }
        if (remaining > 0 || step < kSteps - 1) {
            load_operands(x[(step + 1) % 2], ring.tile(ring.read.stage), (step + 1) % kSteps);
        }
        if (remaining == kStages - 1 && step == kSteps / 2) { // into the stage of the tile before this one
            ring.load(next);
            next.advance();
        }
        multiply<depth>(c, x[step % 2]);
    }
}

// Tiles are loaded while earlier tiles are multiplied, and the operands of a step during the math of the step before.
template <class Layout, int depth>
__device__ __forceinline__ void ahead(Accumulators &c, uint32_t smem, const fp16_bits *a, const fp16_bits *b, int n) {
    __shared__ uint64_t barriers[2][kStages];
    Ring<Layout> ring(smem, barriers);
    const int tiles = n / kDepth;
    for (int tile = 0; tile < kStages - 1; ++tile) { // n is at least 256: 4 tiles
        ring.load({a + tile * kDepth, b + tile * kDepth, n});
    }
    GlobalTile next = {a + (kStages - 1) * kDepth, b + (kStages - 1) * kDepth, n};

    Operands x[2];
    ring.wait();
    load_operands(x[0], ring.tile(0), 0);
    int tile = 0;
    for (; tile < tiles - (kStages - 1); ++tile) {
        multiply_tile<kStages - 1, depth>(c, x, ring, next);
    }
    for (; tile < tiles - 1; ++tile) {
        multiply_tile<1, depth>(c, x, ring, next);
    }
    multiply_tile<0, depth>(c, x, ring, next);
}

// a, b, c: (n, n). Grid (n / 128, n / 256), 256 threads; Tile::kBytes of dynamic shared memory, kStages times if ahead.
// `depth` is the k of the tensor core instruction: 8 for m16n8k8, 16 for m16n8k16.
template <class Layout, Loads loads = Loads::kInTurn, int depth = 8>
__device__ __forceinline__ void gemm(const fp16_bits *a, const fp16_bits *b, fp16_bits *c, int n) {
    extern __shared__ __align__(128) char smem[];
    const auto base = static_cast<uint32_t>(__cvta_generic_to_shared(smem));
    const BlockTile block;
    a += static_cast<size_t>(block.row) * n;
    b += static_cast<size_t>(block.column) * n;
    Accumulators x = {};
    if constexpr (loads == Loads::kAhead) {
        ahead<Layout, depth>(x, base, a, b, n);
    } else {
        in_turn<Layout, depth>(x, base, a, b, n);
    }
    store(c, x, block, n);
}

} // namespace gemm
