// GEMMs on tcgen05 for bench/oracles/umma_cases.py: C = A * B^T. Every layout, every coordinate and both descriptors come
// with the launch, right or wrong. Kernels are named after kind and cta_group, `f16_2` for a pair of blocks. Never run on
// hardware.
#include <cstdint>
#include <cuda.h>

struct Side {
    int boxes, apart, at, stage; // boxes of a tile; bytes between them, from the base to the tile, and between stages
    int start;                   // bytes from the tile to where the descriptor begins
    int pair, further, per;      // bytes from one K step to the next: odd ones, and after each `per` of them
    int rank;                    // of the tensor map: 2 or 3
    int box[3], block[3], peer[3], depth[3], origin[3]; // coordinates: by box, by block of the grid, by rank in the pair,
                                                        // by tile along K, and the first
    uint32_t low, high;          // the descriptor's words, but for the address
};

// Scale factors of one operand, of the block-scaled kinds: in global memory as 512 bytes for 128 rows by four factors, which
// tcgen05.cp takes to tensor memory as they are.
struct Scales {
    int at, stage;            // bytes from the base to the tile's, and between stages
    int rows, deep, total;    // 128 rows of the tile, and four factors along K of the tile and of the matrix: how many
    int further;              // from one tile to the next: of `deep`
    int column, reads;        // of tensor memory, from the first that is allocated: copied to; and read from there on
    int start;                // bytes / 16 from the tile's to where the descriptor begins
    uint32_t high;            // the upper half of the descriptor
};

struct Shape {
    Side a, b;
    Scales scales_a, scales_b;
    int base, expected, tiles, steps, stages; // bytes; bytes of a stage; tiles along K, instructions of one; stages
    uint32_t instruction;                     // descriptor
    int allocated, freed, column, loaded;     // columns of tensor memory: taken, given back, where D is, read of it
    int commits, waits;                       // whether the last tile is committed, and waited for
    int factors;                              // of a row, that an instruction takes
};

enum Kind { kF16, kTf32, kF8, kI8, kMxf8, kMxf4, kNvf4 };

namespace {

__device__ void wait(uint32_t barrier, uint32_t parity) {
    uint32_t done;
    do {
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    } while (!done);
}

template <int group>
__device__ void load(const CUtensorMap &map, const Side &s, uint32_t tile, int block, int rank, int t, uint32_t barrier) {
#pragma unroll 1
    for (int i = 0; i < s.boxes; i++) {
        int at[3];
        for (int axis = 0; axis < 3; axis++)
            at[axis] = s.origin[axis] + i * s.box[axis] + block * s.block[axis] + rank * s.peer[axis] + t * s.depth[axis];
        const uint32_t target = tile + i * s.apart;
        if (group == 2) barrier &= 0xFEFFFFFF; // of the even block
#define COPY(rank, suffix, coordinates)                                                                                \
    asm volatile("cp.async.bulk.tensor." rank ".shared::cluster.global.mbarrier::complete_tx::bytes" suffix              \
                 " [%0], [%1, " coordinates "], [%2];"                                                                  \
                 ::"r"(target), "l"(&map), "r"(barrier), "r"(at[0]), "r"(at[1]), "r"(at[2]) : "memory")
        if (s.rank == 2) {
            if (group == 2) COPY("2d", ".cta_group::2", "{%3, %4}"); else COPY("2d", "", "{%3, %4}");
        } else {
            if (group == 2) COPY("3d", ".cta_group::2", "{%3, %4, %5}"); else COPY("3d", "", "{%3, %4, %5}");
        }
    }
}

// Scale factors of a tile: 512 bytes each, those of the same rows side by side.
template <int group>
__device__ void load_scales(const CUtensorMap &map, const Scales &s, uint32_t tile, int row, int t, uint32_t barrier) {
    if (group == 2) barrier &= 0xFEFFFFFF;
#pragma unroll 1
    for (int i = 0; i < s.rows * s.deep; i++) {
        const uint32_t target = tile + 512 * i;
        const int at[3] = {0, 32 * ((row + i / s.deep) * s.total + t * s.further + i % s.deep), 0};
        if (group == 2) COPY("2d", ".cta_group::2", "{%3, %4}"); else COPY("2d", "", "{%3, %4}");
    }
}

// To tensor memory: four columns for 128 rows, those of the same factors side by side.
template <int group> __device__ void copy_scales(const Scales &s, uint32_t tile, uint32_t tensor) {
#pragma unroll 1
    for (int i = 0; i < s.rows * s.deep; i++) {
        const uint64_t from = (uint64_t)s.high << 32 | (((tile & 0xFFFFFF) + 512 * i >> 4) + s.start & 0x3FFF);
        asm volatile("tcgen05.cp.cta_group::%2.32x128b.warpx4 [%0], %1;"
                     ::"r"(tensor + s.column + 4 * (i % s.deep * s.rows + i / s.deep)), "l"(from), "n"(group) : "memory");
    }
}

__device__ uint64_t descriptor(const Side &s, uint32_t tile, int step) {
    const uint32_t address = (tile & 0xFFFFFF) + s.start + step % s.per * s.pair + step / s.per * s.further;
    return (uint64_t)s.high << 32 | (s.low | (address >> 4 & 0x3FFF));
}

template <int kind, int group>
__device__ void multiply(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction, uint32_t sfa, uint32_t sfb, int adds) {
#define MULTIPLY(name, scales)                                                                                         \
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %4, 0;\n"                                                           \
                 "tcgen05.mma.cta_group::%7.kind::" name " [%0], %1, %2, %3, " scales "p;\n}"                           \
                 ::"r"(d), "l"(a), "l"(b), "r"(instruction), "r"(adds), "r"(sfa), "r"(sfb), "n"(group) : "memory")
    if (kind == kF16) MULTIPLY("f16", "");
    if (kind == kTf32) MULTIPLY("tf32", "");
    if (kind == kF8) MULTIPLY("f8f6f4", "");
    if (kind == kI8) MULTIPLY("i8", "");
    if (kind == kMxf8) MULTIPLY("mxf8f6f4.block_scale", "[%5], [%6], ");
    if (kind == kMxf4) MULTIPLY("mxf4.block_scale.scale_vec::2X", "[%5], [%6], ");
    if (kind == kNvf4) MULTIPLY("mxf4nvf4.block_scale.scale_vec::4X", "[%5], [%6], ");
}

template <int kind, int group>
__device__ void gemm(const CUtensorMap &map_a, const CUtensorMap &map_b, const CUtensorMap &map_scales_a,
                     const CUtensorMap &map_scales_b, uint32_t *c, const Shape &shape) {
    constexpr bool scaled = kind >= kMxf8;
    extern __shared__ __align__(1024) char shared[];
    __shared__ __align__(8) uint64_t barriers[9];
    __shared__ uint32_t tensor;
    const uint32_t tiles = ((uint32_t)__cvta_generic_to_shared(shared) + 1023 & ~1023) + shape.base;
    const uint32_t full = (uint32_t)__cvta_generic_to_shared(barriers), empty = full + 32, done = full + 64;
    uint32_t rank = 0;
    if (group == 2) asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, x = blockIdx.x / group;
    if (warp == 0)
        asm volatile("tcgen05.alloc.cta_group::%2.sync.aligned.shared::cta.b32 [%0], %1;"
                     ::"r"((uint32_t)__cvta_generic_to_shared(&tensor)), "r"(shape.allocated), "n"(group) : "memory");
    if (threadIdx.x == 0)
        for (int i = 0; i < 9; i++)
            asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(full + 8 * i) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;\ntcgen05.fence::before_thread_sync;" ::: "memory");
    if (group == 2) asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    else __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    const uint32_t d = tensor + shape.column;
    if (threadIdx.x == 0) {
#pragma unroll 1
        for (int t = 0; t < shape.tiles; t++) {
            const int stage = t % shape.stages, turn = t / shape.stages;
            const uint32_t a = tiles + shape.a.at + stage * shape.a.stage, b = tiles + shape.b.at + stage * shape.b.stage;
            if (turn > 0) wait(empty + 8 * stage, turn - 1 & 1);
            if (rank == 0)
                asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(full + 8 * stage), "r"(shape.expected) : "memory");
            load<group>(map_a, shape.a, a, blockIdx.y, rank, t, full + 8 * stage);
            load<group>(map_b, shape.b, b, x, rank, t, full + 8 * stage);
            const uint32_t sa = tiles + shape.scales_a.at + stage * shape.scales_a.stage;
            const uint32_t sb = tiles + shape.scales_b.at + stage * shape.scales_b.stage;
            if (scaled) {
                load_scales<group>(map_scales_a, shape.scales_a, sa, blockIdx.y * group + rank, t, full + 8 * stage);
                load_scales<group>(map_scales_b, shape.scales_b, sb, x * shape.scales_b.rows, t, full + 8 * stage);
            }
            if (rank == 0) {
                wait(full + 8 * stage, turn & 1);
                asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
                if (scaled) {
                    copy_scales<group>(shape.scales_a, sa, tensor);
                    copy_scales<group>(shape.scales_b, sb, tensor);
                }
#pragma unroll 1
                for (int step = 0; step < shape.steps; step++) {
                    const int factor = step * shape.factors, word = factor / 4 * 4;
                    const uint32_t which = scaled ? factor % 4 << 4 | factor % 4 << 29 : 0; // of the four bytes
                    multiply<kind, group>(d, descriptor(shape.a, a, step), descriptor(shape.b, b, step),
                                          shape.instruction ^ which,
                                          tensor + shape.scales_a.column + shape.scales_a.reads + word * shape.scales_a.rows,
                                          tensor + shape.scales_b.column + shape.scales_b.reads + word * shape.scales_b.rows,
                                          t + step > 0);
                }
                const uint16_t both = 3;
                if (group == 2)
                    asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                                 ::"r"(empty + 8 * stage), "h"(both) : "memory");
                else
                    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
                                 ::"r"(empty + 8 * stage) : "memory");
                if (t == shape.tiles - 1 && shape.commits) {
                    if (group == 2)
                        asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                                     ::"r"(done), "h"(both) : "memory");
                    else
                        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
                                     ::"r"(done) : "memory");
                }
            }
        }
    }
    __syncwarp();
    if (shape.waits) wait(done, 0);
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
#pragma unroll 1
    for (int n = 0; n < shape.loaded; n += 32) {
        uint32_t r[32];
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,"
                     "%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, [%32];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]),
                       "=r"(r[8]), "=r"(r[9]), "=r"(r[10]), "=r"(r[11]), "=r"(r[12]), "=r"(r[13]), "=r"(r[14]),
                       "=r"(r[15]), "=r"(r[16]), "=r"(r[17]), "=r"(r[18]), "=r"(r[19]), "=r"(r[20]), "=r"(r[21]),
                       "=r"(r[22]), "=r"(r[23]), "=r"(r[24]), "=r"(r[25]), "=r"(r[26]), "=r"(r[27]), "=r"(r[28]),
                       "=r"(r[29]), "=r"(r[30]), "=r"(r[31])
                     : "r"(d + n + (warp * 32 << 16)));
        asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
        uint32_t *row = c + ((blockIdx.y * gridDim.x + blockIdx.x) * 128 + warp * 32 + lane) * shape.loaded + n;
        for (int i = 0; i < 32; i += 4) *(uint4 *)(row + i) = make_uint4(r[i], r[i + 1], r[i + 2], r[i + 3]);
    }
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    if (group == 2) asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    else __syncthreads();
    if (warp == 0) {
        if (shape.freed)
            asm volatile("tcgen05.dealloc.cta_group::%2.sync.aligned.b32 %0, %1;" ::"r"(tensor), "r"(shape.freed), "n"(group));
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::%0.sync.aligned;" ::"n"(group));
    }
}

// Threads store the tiles: of a matrix with rows of `pitch` bytes, boxes of `rows` by `chunks` of 16 bytes, which the XOR of
// address bits 4 to 6 with 7 to 9, as many as `mask` has, permutes.
struct Stored {
    int pitch, chunks, rows, mask;
};

__device__ void store(const char *from, const Stored &one, const Side &s, int element, uint32_t tile, int t) {
#pragma unroll 1
    for (int i = threadIdx.x; i < s.boxes * one.rows * one.chunks; i += 128) {
        const int box = i / one.chunks / one.rows, row = i / one.chunks % one.rows, chunk = i % one.chunks;
        const int x = box * s.box[0] + t * s.depth[0], y = box * s.box[1] + t * s.depth[1] + row;
        const uint4 x4 = *(const uint4 *)(from + (int64_t)y * one.pitch + x * element + chunk * 16);
        const uint32_t wide = (one.mask + 1) * 16 > one.chunks * 16 ? (one.mask + 1) * 16 : one.chunks * 16;
        uint32_t to = tile + box * s.apart + row * wide + chunk * 16;
        to ^= (to >> 7 & one.mask) << 4;
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
                     ::"r"(to), "r"(x4.x), "r"(x4.y), "r"(x4.z), "r"(x4.w) : "memory");
    }
}

template <int kind>
__device__ void stored(const char *from_a, const char *from_b, uint32_t *c, const Stored &of_a, const Stored &of_b,
                       const Shape &shape) {
    constexpr int element = kind == kF16 ? 2 : kind == kTf32 ? 4 : 1;
    extern __shared__ __align__(1024) char shared[];
    __shared__ __align__(8) uint64_t barrier;
    __shared__ uint32_t tensor;
    const uint32_t tiles = ((uint32_t)__cvta_generic_to_shared(shared) + 1023 & ~1023) + shape.base;
    const uint32_t empty = (uint32_t)__cvta_generic_to_shared(&barrier);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp == 0)
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;"
                     ::"r"((uint32_t)__cvta_generic_to_shared(&tensor)), "r"(shape.allocated) : "memory");
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(empty) : "memory");
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    const uint32_t d = tensor + shape.column, a = tiles + shape.a.at, b = tiles + shape.b.at;
#pragma unroll 1
    for (int t = 0; t < shape.tiles; t++) {
        store(from_a, of_a, shape.a, element, a, t);
        store(from_b, of_b, shape.b, element, b, t);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) {
#pragma unroll 1
            for (int step = 0; step < shape.steps; step++)
                multiply<kind, 1>(d, descriptor(shape.a, a, step), descriptor(shape.b, b, step), shape.instruction, 0, 0,
                                  t + step > 0);
            asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
                         ::"r"(empty) : "memory");
        }
        __syncwarp();
        wait(empty, t & 1);
    }
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
#pragma unroll 1
    for (int n = 0; n < shape.loaded; n++) {
        uint32_t loaded;
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];\ntcgen05.wait::ld.sync.aligned;"
                     : "=r"(loaded) : "r"(d + n + (warp * 32 << 16)));
        c[(warp * 32 + lane) * shape.loaded + n] = loaded;
    }
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    if (warp == 0)
        asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(tensor), "r"(shape.freed));
}

} // namespace

#define STORED(name, kind)                                                                                             \
    extern "C" __global__ void __launch_bounds__(128)                                                                  \
        name(const char *a, const char *b, uint32_t *c, const __grid_constant__ Stored of_a,                           \
             const __grid_constant__ Stored of_b, const __grid_constant__ Shape shape) {                               \
        stored<kind>(a, b, c, of_a, of_b, shape);                                                                      \
    }

STORED(f16_stored, kF16)
STORED(tf32_stored, kTf32)
STORED(f8_stored, kF8)

#define KERNEL(name, kind, group)                                                                                      \
    extern "C" __global__ void __cluster_dims__(group, 1, 1) __launch_bounds__(128)                                    \
        name(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,                             \
             const __grid_constant__ CUtensorMap scales_a, const __grid_constant__ CUtensorMap scales_b, uint32_t *c,  \
             const __grid_constant__ Shape shape) {                                                                    \
        gemm<kind, group>(a, b, scales_a, scales_b, c, shape);                                                         \
    }

KERNEL(f16_1, kF16, 1)
KERNEL(f16_2, kF16, 2)
KERNEL(tf32_1, kTf32, 1)
KERNEL(tf32_2, kTf32, 2)
KERNEL(f8_1, kF8, 1)
KERNEL(f8_2, kF8, 2)
KERNEL(i8_1, kI8, 1)
KERNEL(i8_2, kI8, 2)
KERNEL(mxf8_1, kMxf8, 1)
KERNEL(mxf8_2, kMxf8, 2)
KERNEL(mxf4_1, kMxf4, 1)
KERNEL(mxf4_2, kMxf4, 2)
KERNEL(nvf4_1, kNvf4, 1)
KERNEL(nvf4_2, kNvf4, 2)
