// C = A B^T, n x n matrices of fp16 with fp32 accumulation, through tcgen05.mma: one thread multiplies for its block, from
// shared memory into tensor memory. Never run on hardware.
//
//     GMEM→SMEM   16 bytes per thread, or cp.async.bulk.tensor (TMA)     A, B
//     SMEM→TMEM   tcgen05.mma                                            C
//     TMEM→GMEM   tcgen05.ld, 16-byte stores                             C
//
// The variants differ in their `Step`; each one builds on those before it. PTX ISA, "tcgen05". sm_100a.
#pragma once

#include "layout.cuh"
#include "ptx.cuh"
#include "tensor.cuh"
#include "warpgroup.cuh"

#include <cuda.h>
#include <type_traits>

namespace tcgen05 {

using fp16_bits = uint16_t; // storage only: the tensor cores are all that computes in fp16

constexpr int kThreads = 128; // four warps: each may read a quarter of the lanes of tensor memory
constexpr int kRows = 128;    // of A, of B and of C per block
constexpr int kDepth = 64;    // columns of A and B per tile: rows of 128 bytes
constexpr int kTileBytes = kRows * kDepth * sizeof(fp16_bits);

enum class Step {
    kStored, // threads store a tile, one of them multiplies it
    kLoaded, // TMA writes tiles ahead
    kPair,   // two blocks multiply 256 rows of A by 256 of B, and load half of each
};

template <Step step> struct Design {
    static constexpr bool kMaps = step != Step::kStored;
    using Input = std::conditional_t<kMaps, CUtensorMap, const fp16_bits *>;
    static constexpr int kGroup = step == Step::kPair ? 2 : 1;
    static constexpr int kStages = kMaps ? 4 : 1;
    static constexpr int kColumns = kRows * kGroup; // of C
    static constexpr uint32_t kInstruction = ptx::instruction(kRows * kGroup, kColumns);
};

// Barriers in shared memory: a stage is `full` when its tiles are there, `empty` when they have been multiplied; all of C
// is `done`.
template <class D> struct Barriers {
    uint64_t full[D::kStages], empty[D::kStages], done;
};

// Where the block's rows of A, of B and of C begin.
template <class D> struct Place {
    int rank, row, row_b, column;

    __device__ __forceinline__ explicit Place(int n) : rank(0) {
        const int number = blockIdx.x / D::kGroup, down = n / (kRows * D::kGroup);
        if constexpr (D::kGroup > 1) {
            rank = blockIdx.x % D::kGroup;
        }
        row = number % down * (kRows * D::kGroup) + rank * kRows;
        column = number / down * D::kColumns;
        row_b = column + rank * kRows;
    }
};

__device__ __forceinline__ uint32_t address(const void *shared) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

// One thread: C += A B^T for a stage of 64 columns.
template <class D> __device__ __forceinline__ void multiply(uint32_t tensor, uint32_t tiles, bool add) {
#pragma unroll
    for (int step = 0; step < kDepth / 16; ++step) {
        ptx::tensor_multiply<D::kGroup>(tensor, ptx::tile<128>(tiles + step * 32),
                                        ptx::tile<128>(tiles + kTileBytes + step * 32), D::kInstruction,
                                        add || step > 0);
    }
}

// GMEM→SMEM by all threads: 128 rows from `from` on, swizzled as the descriptor says.
__device__ __forceinline__ void store_tile(uint32_t tile, const fp16_bits *from, int n) {
    using Tile = layout::XorSwizzle<128>;
    for (int i = threadIdx.x; i < kRows * 8; i += kThreads) {
        const uint4 chunk = *reinterpret_cast<const uint4 *>(from + static_cast<size_t>(i / 8) * n + i % 8 * 8);
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"r"(tile + Tile::at(i / 8, i % 8)), "r"(chunk.x),
                     "r"(chunk.y), "r"(chunk.z), "r"(chunk.w)
                     : "memory");
    }
}

// A tile at a time: stored, multiplied, waited for.
template <class D>
__device__ __forceinline__ void in_turn(const fp16_bits *a, const fp16_bits *b, uint32_t tensor, uint32_t tiles,
                                        uint32_t empty, const Place<D> &place, int n) {
    for (int k = 0; k < n; k += kDepth) {
        store_tile(tiles, a + static_cast<size_t>(place.row) * n + k, n);
        store_tile(tiles + kTileBytes, b + static_cast<size_t>(place.row_b) * n + k, n);
        ptx::fence_async_shared(); // tcgen05.mma reads by the async proxy
        __syncthreads();
        if (threadIdx.x == 0) {
            multiply<D>(tensor, tiles, k > 0);
            ptx::tensor_commit<D::kGroup>(empty);
        }
        ptx::mbarrier_wait(empty, k / kDepth % 2);
    }
}

// A thread of one warp loads, one of another multiplies. Of a pair, each block loads its half of a stage, and the even
// one, whose barrier counts all bytes, multiplies for both.
template <class D>
__device__ __forceinline__ void ahead(const CUtensorMap &a, const CUtensorMap &b, uint32_t tensor, uint32_t tiles,
                                      const Barriers<D> &barriers, const Place<D> &place, int n) {
    if (threadIdx.x == 0) {
        for (int k = 0, i = 0; k < n; k += kDepth, ++i) {
            const int stage = i % D::kStages;
            const uint32_t to = tiles + stage * 2 * kTileBytes, full = address(&barriers.full[stage]);
            ptx::mbarrier_wait(address(&barriers.empty[stage]), i / D::kStages % 2 ^ 1); // all are empty at first
            if (place.rank == 0) {
                ptx::mbarrier_arrive_expecting(full, D::kGroup * 2 * kTileBytes);
            }
            ptx::load_box_of_pair<D::kGroup>(to, &a, k, place.row, full);
            ptx::load_box_of_pair<D::kGroup>(to + kTileBytes, &b, k, place.row_b, full);
        }
    } else if (threadIdx.x == 32 && place.rank == 0) {
        for (int k = 0, i = 0; k < n; k += kDepth, ++i) {
            const int stage = i % D::kStages;
            ptx::mbarrier_wait(address(&barriers.full[stage]), i / D::kStages % 2);
            ptx::tensor_fence_after();
            multiply<D>(tensor, tiles + stage * 2 * kTileBytes, k > 0);
            ptx::tensor_commit<D::kGroup>(address(&barriers.empty[stage]));
        }
        ptx::tensor_commit<D::kGroup>(address(&barriers.done));
    }
    __syncwarp();
    ptx::mbarrier_wait(address(&barriers.done), 0);
}

// TMEM→GMEM: a thread has a row of C.
template <class D>
__device__ __forceinline__ void store(fp16_bits *c, uint32_t tensor, const Place<D> &place, int n) {
    const uint32_t lanes = tensor + (threadIdx.x / 32 * 32 << 16);
    uint4 *row = reinterpret_cast<uint4 *>(c + static_cast<size_t>(place.row + threadIdx.x) * n + place.column);
    for (int column = 0; column < D::kColumns; column += 8) {
        float x[8];
        ptx::tensor_load(x, lanes + column);
        row[column / 8] = make_uint4(ptx::pack_f16(x[0], x[1]), ptx::pack_f16(x[2], x[3]), ptx::pack_f16(x[4], x[5]),
                                     ptx::pack_f16(x[6], x[7]));
    }
}

// a, b, c: (n, n); tensor maps of A and B have boxes of 64 columns by 128 rows. A block per 128 x kColumns of C, and
// kStages pairs of tiles of dynamic shared memory.
template <class D>
__device__ __forceinline__ void gemm(const typename D::Input &a, const typename D::Input &b, fp16_bits *c, int n) {
    extern __shared__ __align__(1024) char smem[];
    __shared__ Barriers<D> barriers;
    __shared__ uint32_t tensor;
    const auto sync = [] {
        ptx::tensor_fence_before();
        if constexpr (D::kGroup > 1) {
            ptx::cluster_sync();
        } else {
            __syncthreads();
        }
        ptx::tensor_fence_after();
    };
    if constexpr (D::kGroup > 1) {
        ptx::cluster_sync(); // a pair allocates together: both blocks have to run
    }
    if (threadIdx.x < 32) {
        ptx::tensor_allocate<D::kGroup, D::kColumns>(address(&tensor));
    }
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < D::kStages; ++stage) {
            ptx::mbarrier_init(address(&barriers.full[stage]), 1);
            ptx::mbarrier_init(address(&barriers.empty[stage]), 1);
        }
        ptx::mbarrier_init(address(&barriers.done), 1);
        ptx::fence_mbarrier_init();
    }
    sync();
    const Place<D> place(n);
    if constexpr (D::kMaps) {
        ahead<D>(a, b, tensor, address(smem), barriers, place, n);
    } else {
        in_turn<D>(a, b, tensor, address(smem), address(&barriers.empty[0]), place, n);
    }
    ptx::tensor_fence_after();
    store<D>(c, tensor, place, n);
    sync();
    if (threadIdx.x < 32) {
        ptx::tensor_free<D::kGroup, D::kColumns>(tensor);
    }
}

} // namespace tcgen05
