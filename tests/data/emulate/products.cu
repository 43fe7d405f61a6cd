// Products of tensor cores, one a warp or a warp group, on fragments as they lie in memory: word r of thread t of block b
// is in[threads (registers b + r) + t]. bench/recording/products.py runs them on a GPU, tests/emulate/test_products.py in
// the emulator.
#include <cstdint>

#define REGISTERS(array, count) for (int r = 0; r < count; ++r) array[r] = in[32 * r + threadIdx.x % 32];
#define NEXT(count) in += 32 * count;
#define BEGIN(name, na, nb, nc)                                                                  \
    extern "C" __global__ void name(uint32_t *out, const uint32_t *in) {                        \
        uint32_t a[na], b[nb], c[nc], d[nc];                                                     \
        in += 32 * (na + nb + nc) * blockIdx.x;                                                  \
        REGISTERS(a, na) NEXT(na) REGISTERS(b, nb) NEXT(nb) REGISTERS(c, nc)
#define END(nc)                                                                                  \
        for (int r = 0; r < nc; ++r) out[32 * (nc * blockIdx.x + r) + threadIdx.x] = d[r];       \
    }
#define M(shape) "mma.sync.aligned." shape " "

// Registers of A, B and the sum.
#define P214(name, ptx) BEGIN(name, 2, 1, 4) asm(M(ptx) "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"              \
    : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3])); END(4)
#define P212(name, ptx) BEGIN(name, 2, 1, 2) asm(M(ptx) "{%0,%1}, {%2,%3}, {%4}, {%5,%6};"                           \
    : "=r"(d[0]), "=r"(d[1]) : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(c[0]), "r"(c[1])); END(2)
#define P424(name, ptx) BEGIN(name, 4, 2, 4) asm(M(ptx) "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"  \
    : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                                                 \
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3])); END(4)
#define P422(name, ptx) BEGIN(name, 4, 2, 2) asm(M(ptx) "{%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%8,%9};"                  \
    : "=r"(d[0]), "=r"(d[1]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1])); END(2)

P212(mma_16x8x8_f16_f16, "m16n8k8.row.col.f16.f16.f16.f16")
P214(mma_16x8x8_f16_f32, "m16n8k8.row.col.f32.f16.f16.f32")
P422(mma_16x8x16_f16_f16, "m16n8k16.row.col.f16.f16.f16.f16")
P424(mma_16x8x16_f16_f32, "m16n8k16.row.col.f32.f16.f16.f32")
P214(mma_16x8x8_bf16_f32, "m16n8k8.row.col.f32.bf16.bf16.f32")
P424(mma_16x8x16_bf16_f32, "m16n8k16.row.col.f32.bf16.bf16.f32")
P214(mma_16x8x4_tf32_f32, "m16n8k4.row.col.f32.tf32.tf32.f32")
P424(mma_16x8x8_tf32_f32, "m16n8k8.row.col.f32.tf32.tf32.f32")
P424(mma_16x8x32_e4m3_e5m2_f32, "m16n8k32.row.col.f32.e4m3.e5m2.f32")
P424(mma_16x8x32_e5m2_e4m3_f32, "m16n8k32.row.col.f32.e5m2.e4m3.f32")
P422(mma_16x8x32_e4m3_e4m3_f16, "m16n8k32.row.col.f16.e4m3.e4m3.f16")

// Doubles: registers in pairs, low word first.
#define W(x, k) "d"(__hiloint2double(x[2 * k + 1], x[2 * k]))
#define DPUT(k) d[2 * k] = __double2loint(r##k), d[2 * k + 1] = __double2hiint(r##k);
BEGIN(mma_8x8x4_f64, 2, 2, 4)
    double r0, r1;
    asm(M("m8n8k4.row.col.f64.f64.f64.f64") "{%0,%1}, {%2}, {%3}, {%4,%5};"
        : "=d"(r0), "=d"(r1) : W(a, 0), W(b, 0), W(c, 0), W(c, 1));
    DPUT(0) DPUT(1)
END(4)
BEGIN(mma_16x8x4_f64, 4, 2, 8)
    double r0, r1, r2, r3;
    asm(M("m16n8k4.row.col.f64.f64.f64.f64") "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
        : "=d"(r0), "=d"(r1), "=d"(r2), "=d"(r3) : W(a, 0), W(a, 1), W(b, 0), W(c, 0), W(c, 1), W(c, 2), W(c, 3));
    DPUT(0) DPUT(1) DPUT(2) DPUT(3)
END(8)
BEGIN(mma_16x8x8_f64, 8, 4, 8)
    double r0, r1, r2, r3;
    asm(M("m16n8k8.row.col.f64.f64.f64.f64") "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=d"(r0), "=d"(r1), "=d"(r2), "=d"(r3)
        : W(a, 0), W(a, 1), W(a, 2), W(a, 3), W(b, 0), W(b, 1), W(c, 0), W(c, 1), W(c, 2), W(c, 3));
    DPUT(0) DPUT(1) DPUT(2) DPUT(3)
END(8)
BEGIN(mma_16x8x16_f64, 16, 8, 8)
    double r0, r1, r2, r3;
    asm(M("m16n8k16.row.col.f64.f64.f64.f64")
        "{%0,%1,%2,%3}, {%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}, {%16,%17,%18,%19};"
        : "=d"(r0), "=d"(r1), "=d"(r2), "=d"(r3)
        : W(a, 0), W(a, 1), W(a, 2), W(a, 3), W(a, 4), W(a, 5), W(a, 6), W(a, 7), W(b, 0), W(b, 1), W(b, 2), W(b, 3),
          W(c, 0), W(c, 1), W(c, 2), W(c, 3));
    DPUT(0) DPUT(1) DPUT(2) DPUT(3)
END(8)

// Warp groups. B, 8 x 32 bytes, lies in shared memory as two columns of core matrices; A in registers or as B, four times.
__device__ uint64_t descriptor(const void *tile, uint32_t leading, uint32_t stride) {
    uint64_t at = __cvta_generic_to_shared(tile);
    return (at & 0x3ffff) >> 4 | uint64_t(leading >> 4) << 16 | uint64_t(stride >> 4) << 32;
}
#define GROUP(name, nc)                                                                                               \
    extern "C" __global__ void name(uint32_t *out, const uint32_t *in) {                                              \
        __shared__ alignas(128) uint32_t tile[64];                                                                     \
        uint32_t a[4], d[nc];                                                                                          \
        const int t = threadIdx.x;                                                                                     \
        in += (128 * (4 + nc) + 64) * blockIdx.x;                                                                      \
        for (int r = 0; r < 4; ++r) a[r] = in[128 * r + t];                                                            \
        if (t < 64) tile[t] = in[128 * 4 + t];                                                                         \
        for (int r = 0; r < nc; ++r) d[r] = in[128 * 4 + 64 + 128 * r + t];                                            \
        uint64_t right = descriptor(tile, 128, 256);                                                                   \
        asm volatile("fence.proxy.async;" ::: "memory");                                                               \
        __syncthreads();                                                                                               \
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#define GROUP_END(nc)                                                                                                  \
        asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");                \
        for (int r = 0; r < nc; ++r) out[128 * (nc * blockIdx.x + r) + t] = d[r];                                      \
    }
#define MULTIPLY4(ptx, more) asm volatile("wgmma.mma_async.sync.aligned." ptx " {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, 1" more ";" \
    : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right));
#define MULTIPLY2(ptx, more) asm volatile("wgmma.mma_async.sync.aligned." ptx " {%0,%1}, {%2,%3,%4,%5}, %6, 1" more ";" \
    : "+r"(d[0]), "+r"(d[1]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right));
#define G4(name, ptx, more) GROUP(name, 4) MULTIPLY4(ptx, more) GROUP_END(4)
#define G2(name, ptx, more) GROUP(name, 2) MULTIPLY2(ptx, more) GROUP_END(2)
#define H ", 1, 1, 0"
#define Q ", 1, 1"
G4(wgmma_64x8x16_f16_f32, "m64n8k16.f32.f16.f16", H)
G2(wgmma_64x8x16_f16_f16, "m64n8k16.f16.f16.f16", H)
G4(wgmma_64x8x16_bf16_f32, "m64n8k16.f32.bf16.bf16", H)
G4(wgmma_64x8x8_tf32_f32, "m64n8k8.f32.tf32.tf32", Q)
G4(wgmma_64x8x32_e4m3_e4m3_f32, "m64n8k32.f32.e4m3.e4m3", Q)
G4(wgmma_64x8x32_e5m2_e5m2_f32, "m64n8k32.f32.e5m2.e5m2", Q)
G4(wgmma_64x8x32_e4m3_e5m2_f32, "m64n8k32.f32.e4m3.e5m2", Q)
G4(wgmma_64x8x32_e5m2_e4m3_f32, "m64n8k32.f32.e5m2.e4m3", Q)
G2(wgmma_64x8x32_e4m3_e4m3_f16, "m64n8k32.f16.e4m3.e4m3", Q)
G2(wgmma_64x8x32_e5m2_e5m2_f16, "m64n8k32.f16.e5m2.e5m2", Q)
// With signs changed.
G4(wgmma_negated_f16_f32, "m64n8k16.f32.f16.f16", ", -1, 1, 0")
G4(wgmma_twice_negated_e4m3_f32, "m64n8k32.f32.e4m3.e4m3", ", -1, -1")
// Four times, one behind the other: what is kept between them.
#define FOUR(name, nc, each) GROUP(name, nc) each each each each GROUP_END(nc)
FOUR(wgmma_four_f16_f32, 4, MULTIPLY4("m64n8k16.f32.f16.f16", H))
FOUR(wgmma_four_f16_f16, 2, MULTIPLY2("m64n8k16.f16.f16.f16", H))
FOUR(wgmma_four_e4m3_f32, 4, MULTIPLY4("m64n8k32.f32.e4m3.e4m3", Q))
FOUR(wgmma_four_e5m2_f16, 2, MULTIPLY2("m64n8k32.f16.e5m2.e5m2", Q))
// A from shared memory: eight rows of 128 bytes, then the next core matrix, columns behind that.
#define SHARED(name, ptx, more) GROUP(name, 4)                                                                         \
    __shared__ alignas(128) uint32_t left[512];                                                                         \
    for (int r = 0; r < 4; ++r)                                                                                         \
        left[256 * (r / 2) + 64 * (t / 32) + 32 * (r % 2) + t % 32] = a[r];                                              \
    asm volatile("fence.proxy.async;" ::: "memory");                                                                    \
    __syncthreads();                                                                                                    \
    uint64_t from = descriptor(left, 1024, 128);                                                                        \
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");                                                             \
    asm volatile("wgmma.mma_async.sync.aligned." ptx " {%0,%1,%2,%3}, %4, %5, 1" more ";"                               \
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "l"(from), "l"(right));                                      \
    GROUP_END(4)
SHARED(wgmma_shared_bf16_f32, "m64n8k16.f32.bf16.bf16", ", 1, 1, 0, 0")
SHARED(wgmma_shared_e5m2_f32, "m64n8k32.f32.e5m2.e5m2", Q)
