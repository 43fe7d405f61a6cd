// A GEMM whose layouts are all parameters, for bench/oracles/descriptors.py: C = A * B^T of kSize x kSize x kSize, fp16 in, fp32
// out. Every field of the tensor maps and of the descriptors comes with the launch, right or wrong. Kernels are named
// after what wgmma takes the tiles for: `kk` both K-major, `km` B MN-major, `mk` A MN-major, `mm` both.
#include <cstdint>
#include <cuda.h>

struct Operand {
    int boxes, columns, rows, apart; // boxes of a tile; from one to the next: columns, rows, and bytes in shared memory
    int along_x;                     // K is the inner dimension of the tensor map
    int start, group;                // bytes from the tile to where wgmma begins, and between the two warpgroups
    int pair, further;               // bytes from one K step of 16 to the next: odd ones, and after each `per` of them
    int per;
    uint32_t low, high;              // the descriptor's words, but for the address
};

struct Layouts {
    Operand a, b;
    int base, expected; // bytes from an address that is a multiple of 1024; bytes of a stage
};

namespace {

constexpr int kSize = 256, kTile = 128, kDepth = 64, kStages = 2;
constexpr int kTileBytes = kTile * kDepth * 2;

__device__ void wait(uint32_t barrier, uint32_t parity) {
    uint32_t done;
    do {
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    } while (!done);
}

__device__ void load(const CUtensorMap &map, const Operand &o, uint32_t tile, int first, int k, uint32_t barrier) {
#pragma unroll 1
    for (int i = 0; i < o.boxes; i++) {
        const int x = (o.along_x ? k : first) + i * o.columns, y = (o.along_x ? first : k) + i * o.rows;
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     ::"r"(tile + i * o.apart), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
    }
}

__device__ uint64_t descriptor(const Operand &o, uint32_t tile, int group, int step) {
    const uint32_t address = tile + o.start + group * o.group + step % o.per * o.pair + step / o.per * o.further;
    return (uint64_t)o.high << 32 | (o.low | (address >> 4 & 0x3FFF));
}

template <int a_mn, int b_mn> __device__ void multiply(float (&d)[64], uint64_t a, uint64_t b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"
        "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,"
        "%58,%59,%60,%61,%62,%63}, %64, %65, 1, 1, 1, %66, %67;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
          "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
          "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
          "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]),
          "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]),
          "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
          "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]),
          "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "l"(a), "l"(b), "n"(a_mn), "n"(b_mn));
}

template <int a_mn, int b_mn>
__device__ void gemm(const CUtensorMap &map_a, const CUtensorMap &map_b, float *c, const Layouts &layouts) {
    extern __shared__ __align__(1024) char shared[];
    __shared__ __align__(8) uint64_t full[kStages];
    const uint32_t tiles = ((uint32_t)__cvta_generic_to_shared(shared) + 1023 & ~1023) + layouts.base;
    const uint32_t barriers = (uint32_t)__cvta_generic_to_shared(full);
    const int group = threadIdx.x / 128, row = blockIdx.y * kTile, column = blockIdx.x * kTile;
    if (threadIdx.x == 0)
        for (int s = 0; s < kStages; s++) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barriers + 8 * s) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncthreads();
    float d[64] = {};
#pragma unroll 1
    for (int t = 0; t < kSize / kDepth; t++) {
        const int stage = t % kStages;
        const uint32_t a = tiles + stage * 2 * kTileBytes, b = a + kTileBytes, barrier = barriers + 8 * stage;
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(layouts.expected) : "memory");
            load(map_a, layouts.a, a, row, t * kDepth, barrier);
            load(map_b, layouts.b, b, column, t * kDepth, barrier);
        }
        wait(barrier, t / kStages & 1);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int step = 0; step < kDepth / 16; step++)
            multiply<a_mn, b_mn>(d, descriptor(layouts.a, a, group, step), descriptor(layouts.b, b, 0, step));
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
        __syncthreads(); // the stage is free
    }
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int i = 0; i < 64; i++) {
        const int m = warp * 16 + lane / 4 + i / 2 % 2 * 8, n = i / 4 * 8 + lane % 4 * 2 + i % 2;
        c[(row + m) * kSize + column + n] = d[i];
    }
}

} // namespace

#define KERNEL(name, a_mn, b_mn)                                                                                        \
    extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ CUtensorMap a,                      \
                                                           const __grid_constant__ CUtensorMap b, float *c,            \
                                                           const __grid_constant__ Layouts layouts) {                  \
        gemm<a_mn, b_mn>(a, b, c, layouts);                                                                             \
    }

KERNEL(kk, 0, 0)
KERNEL(km, 0, 1)
KERNEL(mk, 1, 0)
KERNEL(mm, 1, 1)
