// GEMMs of other shapes than tiles.cu's, for tests/support/shape_cases.py: types of 8, 16 and 32 bits, 8 to 256 columns, A
// in registers, tensor maps of 2 to 5 dimensions, and a cluster of two blocks that share B. C = A * B^T; every layout and
// every coordinate comes with the launch. Descriptors are made as CuTe makes them: an offset is added to the low word.
#include <cstdint>
#include <cuda.h>

struct Side {
    int boxes, apart, at, stage;  // boxes of a tile; bytes between them, from the base to the tile, and between stages
    int start, group;             // bytes from the tile to where wgmma begins, and between warpgroups
    int pair, further, per;       // bytes from one K step to the next: odd ones, and after each `per` of them
    int rank;                     // of the tensor map
    int box[5], block[5], depth[5], origin[5]; // coordinates: by box, by block of the grid, by tile along K, and the first
    uint32_t low, high;           // the descriptor's words, but for the address
};

struct Shapes {
    Side a, b;
    int base, expected, tiles, steps, stages, k; // bytes; bytes of a stage; tiles along K, wgmmas of one; stages; K
};

namespace {

struct Half64kk {
    using Result = float;
    static constexpr int kColumns = 64;
    __device__ static void multiply(float (&d)[32], uint64_t a, uint64_t b) {
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
            "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,"
            "%27,%28,%29,%30,%31}, "
            "%32, %33, 1, 1, 1, 0, 0;"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
              "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
              "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
              "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
            : "l"(a), "l"(b));
    }
};

struct Half64mm {
    using Result = float;
    static constexpr int kColumns = 64;
    __device__ static void multiply(float (&d)[32], uint64_t a, uint64_t b) {
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
            "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,"
            "%27,%28,%29,%30,%31}, "
            "%32, %33, 1, 1, 1, 1, 1;"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
              "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
              "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
              "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
            : "l"(a), "l"(b));
    }
};

struct Brain256km {
    using Result = float;
    static constexpr int kColumns = 256;
    __device__ static void multiply(float (&d)[128], uint64_t a, uint64_t b) {
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
            "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,"
            "%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,"
            "%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,"
            "%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,"
            "%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,"
            "%121,%122,%123,%124,%125,%126,%127}, "
            "%128, %129, 1, 1, 1, 0, 1;"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
              "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
              "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
              "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
              "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
              "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
              "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
              "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
              "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
              "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
              "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
              "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
              "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]),
              "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]),
              "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]),
              "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]),
              "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
            : "l"(a), "l"(b));
    }
};

struct Half8kk {
    using Result = float;
    static constexpr int kColumns = 8;
    __device__ static void multiply(float (&d)[4], uint64_t a, uint64_t b) {
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
            "{%0,%1,%2,%3}, "
            "%4, %5, 1, 1, 1, 0, 0;"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "l"(a), "l"(b));
    }
};

struct Tf32 {
    using Result = float;
    static constexpr int kColumns = 64;
    __device__ static void multiply(float (&d)[32], uint64_t a, uint64_t b) {
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 "
            "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,"
            "%27,%28,%29,%30,%31}, "
            "%32, %33, 1, 1, 1;"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
              "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
              "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
              "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
            : "l"(a), "l"(b));
    }
};

struct Fp8 {
    using Result = float;
    static constexpr int kColumns = 64;
    __device__ static void multiply(float (&d)[32], uint64_t a, uint64_t b) {
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 "
            "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,"
            "%27,%28,%29,%30,%31}, "
            "%32, %33, 1, 1, 1;"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
              "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
              "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
              "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
            : "l"(a), "l"(b));
    }
};

struct Int8 {
    using Result = int;
    static constexpr int kColumns = 64;
    __device__ static void multiply(int (&d)[32], uint64_t a, uint64_t b) {
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 "
            "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,"
            "%27,%28,%29,%30,%31}, "
            "%32, %33, 1;"
            : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7]),
              "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15]),
              "+r"(d[16]), "+r"(d[17]), "+r"(d[18]), "+r"(d[19]), "+r"(d[20]), "+r"(d[21]), "+r"(d[22]), "+r"(d[23]),
              "+r"(d[24]), "+r"(d[25]), "+r"(d[26]), "+r"(d[27]), "+r"(d[28]), "+r"(d[29]), "+r"(d[30]), "+r"(d[31])
            : "l"(a), "l"(b));
    }
};

struct RegistersK {
    using Result = float;
    static constexpr int kColumns = 64;
    __device__ static void multiply(float (&d)[32], const uint32_t (&a)[4], uint64_t b) {
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
            "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,"
            "%27,%28,%29,%30,%31}, "
            "{%32,%33,%34,%35}, %36, 1, 1, 1, 0;"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
              "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
              "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
              "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    }
};

struct RegistersM {
    using Result = float;
    static constexpr int kColumns = 64;
    __device__ static void multiply(float (&d)[32], const uint32_t (&a)[4], uint64_t b) {
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
            "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,"
            "%27,%28,%29,%30,%31}, "
            "{%32,%33,%34,%35}, %36, 1, 1, 1, 1;"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
              "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
              "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
              "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    }
};

__device__ void wait(uint32_t barrier, uint32_t parity) {
    uint32_t done;
    do {
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    } while (!done);
}

#define COPY(rank, suffix) "cp.async.bulk.tensor." rank "d.shared::cluster.global.mbarrier::complete_tx::bytes" suffix
#define TO "l"(&map), "r"(tile + i * s.apart), "r"(barrier), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4])

__device__ void load(const CUtensorMap &map, const Side &s, uint32_t tile, int block, int depth, uint32_t barrier) {
#pragma unroll 1
    for (int i = 0; i < s.boxes; i++) {
        int c[5];
        for (int axis = 0; axis < 5; axis++)
            c[axis] = s.origin[axis] + i * s.box[axis] + block * s.block[axis] + depth * s.depth[axis];
        if (s.rank == 2) asm volatile(COPY("2", " [%1], [%0, {%3, %4}], [%2];") ::TO : "memory");
        if (s.rank == 3) asm volatile(COPY("3", " [%1], [%0, {%3, %4, %5}], [%2];") ::TO : "memory");
        if (s.rank == 4) asm volatile(COPY("4", " [%1], [%0, {%3, %4, %5, %6}], [%2];") ::TO : "memory");
        if (s.rank == 5) asm volatile(COPY("5", " [%1], [%0, {%3, %4, %5, %6, %7}], [%2];") ::TO : "memory");
    }
}

// Half of a tile's boxes, into both blocks of the cluster.
__device__ void share(const CUtensorMap &map, const Side &s, uint32_t tile, int block, int depth, uint32_t barrier, int rank,
                      int mask) {
#pragma unroll 1
    for (int i = rank; i < s.boxes; i += 2) {
        const int x = s.origin[0] + i * s.box[0] + block * s.block[0] + depth * s.depth[0];
        const int y = s.origin[1] + i * s.box[1] + block * s.block[1] + depth * s.depth[1];
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                     "[%0], [%1, {%2, %3}], [%4], %5;"
                     ::"r"(tile + i * s.apart), "l"(&map), "r"(x), "r"(y), "r"(barrier), "h"((short)mask) : "memory");
    }
}

__device__ uint64_t descriptor(const Side &s, uint32_t tile, int group, int step) {
    const uint32_t offset = s.start + group * s.group + step % s.per * s.pair + step / s.per * s.further;
    return ((uint64_t)s.high << 32 | s.low | (tile >> 4 & 0x3FFF)) + (offset >> 4);
}

__device__ void prepare(uint32_t barriers, int stages) {
    if (threadIdx.x == 0)
        for (int s = 0; s < stages; s++) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barriers + 8 * s) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncthreads();
}

__device__ void expect(uint32_t barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ void finish() { asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory"); }

__device__ void rendezvous() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

template <class Kind> __device__ void store(typename Kind::Result *c, const typename Kind::Result (&d)[Kind::kColumns / 2]) {
    constexpr int kColumns = Kind::kColumns;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, rows = blockDim.x / 2, width = gridDim.x * kColumns;
    for (int i = 0; i < kColumns / 2; i++) {
        const int m = warp * 16 + lane / 4 + i / 2 % 2 * 8, n = i / 4 * 8 + lane % 4 * 2 + i % 2;
        c[(blockIdx.y * rows + m) * width + blockIdx.x * kColumns + n] = d[i];
    }
}

template <class Kind>
__device__ void gemm(const CUtensorMap &map_a, const CUtensorMap &map_b, typename Kind::Result *c, const Shapes &shapes) {
    extern __shared__ __align__(1024) char shared[];
    __shared__ __align__(8) uint64_t full[4];
    const uint32_t base = ((uint32_t)__cvta_generic_to_shared(shared) + 1023 & ~1023) + shapes.base;
    const uint32_t barriers = (uint32_t)__cvta_generic_to_shared(full);
    prepare(barriers, shapes.stages);
    typename Kind::Result d[Kind::kColumns / 2] = {};
#pragma unroll 1
    for (int t = 0; t < shapes.tiles; t++) {
        const int stage = t % shapes.stages;
        const uint32_t a = base + shapes.a.at + stage * shapes.a.stage, b = base + shapes.b.at + stage * shapes.b.stage;
        const uint32_t barrier = barriers + 8 * stage;
        if (threadIdx.x == 0) {
            expect(barrier, shapes.expected);
            load(map_a, shapes.a, a, blockIdx.y, t, barrier);
            load(map_b, shapes.b, b, blockIdx.x, t, barrier);
        }
        wait(barrier, t / shapes.stages & 1);
        fence();
#pragma unroll 1
        for (int step = 0; step < shapes.steps; step++)
            Kind::multiply(d, descriptor(shapes.a, a, threadIdx.x / 128, step), descriptor(shapes.b, b, 0, step));
        finish();
        __syncthreads(); // the stage is free
    }
    store<Kind>(c, d);
}

// A straight from global memory to registers, rows of shapes.k halves.
template <class Kind>
__device__ void gemm_registers(const uint32_t *a, const CUtensorMap &map_b, float *c, const Shapes &shapes) {
    extern __shared__ __align__(1024) char shared[];
    __shared__ __align__(8) uint64_t full[4];
    const uint32_t base = ((uint32_t)__cvta_generic_to_shared(shared) + 1023 & ~1023) + shapes.base;
    const uint32_t barriers = (uint32_t)__cvta_generic_to_shared(full);
    prepare(barriers, shapes.stages);
    const int lane = threadIdx.x % 32, row = blockIdx.y * (blockDim.x / 2) + threadIdx.x / 32 * 16 + lane / 4;
    float d[Kind::kColumns / 2] = {};
#pragma unroll 1
    for (int t = 0; t < shapes.tiles; t++) {
        const int stage = t % shapes.stages;
        const uint32_t b = base + shapes.b.at + stage * shapes.b.stage, barrier = barriers + 8 * stage;
        if (threadIdx.x == 0) {
            expect(barrier, shapes.expected);
            load(map_b, shapes.b, b, blockIdx.x, t, barrier);
        }
        wait(barrier, t / shapes.stages & 1);
#pragma unroll 1
        for (int step = 0; step < shapes.steps; step++) {
            uint32_t registers[4];
            for (int i = 0; i < 4; i++)
                registers[i] = a[((row + i % 2 * 8) * shapes.k + (t * shapes.steps + step) * 16 + i / 2 * 8) / 2 + lane % 4];
            fence();
            Kind::multiply(d, registers, descriptor(shapes.b, b, 0, step));
            finish();
        }
        __syncthreads();
    }
    store<Kind>(c, d);
}

// Two blocks above each other: each loads its own A and half of the boxes of B.
template <class Kind>
__device__ void gemm_shared(const CUtensorMap &map_a, const CUtensorMap &map_b, float *c, const Shapes &shapes) {
    extern __shared__ __align__(1024) char shared[];
    __shared__ __align__(8) uint64_t full[4];
    const uint32_t base = ((uint32_t)__cvta_generic_to_shared(shared) + 1023 & ~1023) + shapes.base;
    const uint32_t barriers = (uint32_t)__cvta_generic_to_shared(full);
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    prepare(barriers, shapes.stages);
    rendezvous();
    float d[Kind::kColumns / 2] = {};
#pragma unroll 1
    for (int t = 0; t < shapes.tiles; t++) {
        const int stage = t % shapes.stages;
        const uint32_t a = base + shapes.a.at + stage * shapes.a.stage, b = base + shapes.b.at + stage * shapes.b.stage;
        const uint32_t barrier = barriers + 8 * stage;
        if (threadIdx.x == 0) {
            expect(barrier, shapes.expected);
            load(map_a, shapes.a, a, blockIdx.y, t, barrier);
            share(map_b, shapes.b, b, blockIdx.x, t, barrier, rank, 3);
        }
        wait(barrier, t / shapes.stages & 1);
        fence();
#pragma unroll 1
        for (int step = 0; step < shapes.steps; step++)
            Kind::multiply(d, descriptor(shapes.a, a, threadIdx.x / 128, step), descriptor(shapes.b, b, 0, step));
        finish();
        rendezvous(); // the stage is free, in both
    }
    store<Kind>(c, d);
}

} // namespace

#define KERNEL(name, Kind)                                                                                              \
    extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ CUtensorMap a,                      \
                                                           const __grid_constant__ CUtensorMap b, Kind::Result *c,     \
                                                           const __grid_constant__ Shapes shapes) {                    \
        gemm<Kind>(a, b, c, shapes);                                                                                    \
    }

KERNEL(half64kk, Half64kk)
KERNEL(half64mm, Half64mm)
KERNEL(brain256km, Brain256km)
KERNEL(half8kk, Half8kk)
KERNEL(tf32, Tf32)
KERNEL(fp8, Fp8)
KERNEL(int8, Int8)

#define REGISTERS(name, Kind)                                                                                           \
    extern "C" __global__ void __launch_bounds__(128) name(const uint32_t *a, const __grid_constant__ CUtensorMap b,   \
                                                           float *c, const __grid_constant__ Shapes shapes) {          \
        gemm_registers<Kind>(a, b, c, shapes);                                                                          \
    }

REGISTERS(registers_k, RegistersK)
REGISTERS(registers_m, RegistersM)

extern "C" __global__ void __cluster_dims__(1, 2, 1) __launch_bounds__(256)
    multicast(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float *c,
              const __grid_constant__ Shapes shapes) {
    gemm_shared<Half64kk>(a, b, c, shapes);
}
