// What instructions and memory of an H100 cost, in cycles: bench/recording/latencies.py compiles and runs it.
//
// A line per measurement on stdout: its name, its unit, and one value per repetition. A latency is the time of a chain
// of dependent instructions; what surrounds it cancels, as a short chain is taken from a long one. A rate is that of 32
// warps with four chains each. `latencies launches` only launches kernels that do next to nothing, for ncu to count.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "../kernels/common/warpgroup.cuh"

const int REPEATS = 15;
const int SHORT = 8, LONG = 40;
const int CHAINS = 4, TURNS = 1024; // of a rate: many, or the last warp's end counts
const int SHARED_BYTES = 160 << 10;

#define CHECK(call)                                                                                     \
    do {                                                                                                \
        cudaError_t status = call;                                                                      \
        if (status != cudaSuccess) {                                                                    \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(status)); \
            exit(1);                                                                                    \
        }                                                                                               \
    } while (0)

__device__ __forceinline__ long long now() {
    long long cycles;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles)::"memory");
    return cycles;
}

// As in ptx.cuh, which has them for sm_90 alone: the host's compiler reads this file, too.
__device__ __forceinline__ void expect(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void copy_box(uint32_t to, const void *map, uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %2}], "
                 "[%3];" ::"r"(to), "l"(map), "r"(0), "r"(barrier)
                 : "memory");
}

__device__ __forceinline__ void copy_bulk(uint32_t to, const void *from, int bytes, uint32_t barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

struct Operands {
    const void *global; // words of 8 bytes that hold their own addresses, 16 bytes apart
    const void *map;    // CUtensorMap, or null
    uint32_t one;       // 1, which no compiler knows
    uint32_t zero;
};

struct Context {
    Operands given;
    uint32_t shared;
    uint32_t parity;
};

__constant__ uint32_t zeros[1024];

// ------------------------------------------------------------------------------------------ instructions in a chain

// An operation has `step`, whose result the next one needs; its first value; and how many bytes apart the lanes' words
// are in shared memory, all of which hold the address that a lane reads next.
struct OnRegister {
    using Value = uint32_t;
    static constexpr int kSpan = 4;
    static __device__ Value first(const Context &context, int lane) { return context.given.one * (lane + 3); }
};

#define WORD(Name, Text)                                                                                       \
    struct Name : OnRegister {                                                                                 \
        static __device__ __forceinline__ void step(uint32_t &x, Context &c) {                                 \
            asm volatile(Text : "+r"(x) : "r"(c.given.one), "r"(c.given.zero) : "memory");                     \
        }                                                                                                      \
    };
#define TYPED(Name, Type, Letter, Text)                                                                        \
    struct Name {                                                                                              \
        using Value = Type;                                                                                    \
        static constexpr int kSpan = 4;                                                                        \
        static __device__ Value first(const Context &context, int lane) { return Type(context.given.one); }    \
        static __device__ __forceinline__ void step(Type &x, Context &c) {                                     \
            asm volatile(Text : "+" Letter(x) : Letter(Type(c.given.one)), Letter(Type(c.given.zero)) : "memory"); \
        }                                                                                                      \
    };

WORD(AddXor, "add.s32 %0, %0, %1;\nxor.b32 %0, %0, %1;")
WORD(Shift, "shf.l.wrap.b32 %0, %0, %1, %1;")
WORD(MultiplyAdd, "mad.lo.s32 %0, %0, %1, %1;")
WORD(Minimum, "min.s32 %0, %0, %1;\nmax.s32 %0, %0, %2;")
WORD(Permute, "prmt.b32 %0, %0, %1, 0x4321;")
WORD(SetSelect, "{\n.reg .pred p;\nsetp.gt.s32 p, %0, %1;\nselp.s32 %0, %1, %2, p;\n}")
WORD(Count, "popc.b32 %0, %0;")
WORD(LeadingBit, "bfind.u32 %0, %0;")
WORD(Reverse, "brev.b32 %0, %0;")
WORD(Shuffle, "shfl.sync.bfly.b32 %0, %0, 1, 31, -1;")
WORD(Ballot, "{\n.reg .pred p;\nsetp.gt.s32 p, %0, %1;\nvote.sync.ballot.b32 %0, p, -1;\n}")
WORD(Reduce, "redux.sync.add.s32 %0, %0, -1;")
WORD(FloatToInt, "{\n.reg .f32 f;\ncvt.rn.f32.s32 f, %0;\ncvt.rzi.s32.f32 %0, f;\n}")
WORD(HalfFma, "fma.rn.f16x2 %0, %0, %1, %1;")
TYPED(Fma, float, "f", "fma.rn.f32 %0, %0, %1, %1;")
TYPED(Add, float, "f", "add.rn.f32 %0, %0, %1;")
TYPED(Multiply, float, "f", "mul.rn.f32 %0, %0, %1;")
TYPED(FloatMaximum, float, "f", "max.f32 %0, %0, %1;\nmin.f32 %0, %0, %2;")
TYPED(DoubleFma, double, "d", "fma.rn.f64 %0, %0, %1, %1;")
TYPED(DoubleAdd, double, "d", "add.rn.f64 %0, %0, %1;")
TYPED(DoubleMultiply, double, "d", "mul.rn.f64 %0, %0, %1;")
TYPED(Exponential, float, "f", "ex2.approx.ftz.f32 %0, %0;")
TYPED(Logarithm, float, "f", "lg2.approx.ftz.f32 %0, %0;")
TYPED(InverseRoot, float, "f", "rsqrt.approx.ftz.f32 %0, %0;")
TYPED(Sine, float, "f", "sin.approx.ftz.f32 %0, %0;")
TYPED(ToDouble, float, "f", "{\n.reg .f64 d;\ncvt.f64.f32 d, %0;\ncvt.rn.f32.f64 %0, d;\n}")
TYPED(ToHalf, float, "f", "{\n.reg .f16 h;\ncvt.rn.f16.f32 h, %0;\ncvt.f32.f16 %0, h;\n}")

struct Constant : OnRegister { // the next index is what was read, which is 0
    static __device__ Value first(const Context &context, int lane) { return context.given.zero; }
    static __device__ __forceinline__ void step(uint32_t &x, Context &) {
        asm volatile("{\n.reg .u64 a, b;\ncvt.u64.u32 a, %0;\nmov.u64 b, zeros;\nadd.u64 a, a, b;\nld.const.u32 %0, [a];\n}"
                     : "+r"(x)::"memory");
    }
};

// Shared memory: each word holds the address that the lane reads.
template <int span> struct InShared {
    using Value = uint32_t;
    static constexpr int kSpan = span;
    static __device__ Value first(const Context &context, int lane) { return context.shared + lane * span; }
};

struct LoadShared : InShared<4> {
    static __device__ __forceinline__ void step(uint32_t &x, Context &) {
        asm volatile("ld.volatile.shared.u32 %0, [%0];" : "+r"(x)::"memory");
    }
};
struct LoadShared64 : InShared<8> {
    static __device__ __forceinline__ void step(uint32_t &x, Context &) {
        asm volatile("{\n.reg .u32 y;\nld.volatile.shared.v2.u32 {%0, y}, [%0];\n}" : "+r"(x)::"memory");
    }
};
struct LoadShared128 : InShared<16> {
    static __device__ __forceinline__ void step(uint32_t &x, Context &) {
        asm volatile("{\n.reg .u32 y, z, w;\nld.volatile.shared.v4.u32 {%0, y, z, w}, [%0];\n}" : "+r"(x)::"memory");
    }
};
template <int ways> struct LoadConflicted : InShared<4 * ways> { // each lane in the bank of `ways` - 1 others
    static __device__ __forceinline__ void step(uint32_t &x, Context &) {
        asm volatile("ld.volatile.shared.u32 %0, [%0];" : "+r"(x)::"memory");
    }
};
struct StoreLoad : InShared<4> {
    static __device__ __forceinline__ void step(uint32_t &x, Context &) {
        asm volatile("st.volatile.shared.u32 [%0], %0;\nld.volatile.shared.u32 %0, [%0];" : "+r"(x)::"memory");
    }
};
template <int width> struct Store : InShared<width> { // no chain: for rates only
    static __device__ __forceinline__ void step(uint32_t &x, Context &) {
        if (width == 4) asm volatile("st.volatile.shared.u32 [%0], %0;" ::"r"(x) : "memory");
        if (width == 8) asm volatile("st.volatile.shared.v2.u32 [%0], {%0, %0};" ::"r"(x) : "memory");
        if (width == 16) asm volatile("st.volatile.shared.v4.u32 [%0], {%0, %0, %0, %0};" ::"r"(x) : "memory");
    }
};
struct AtomicOr : InShared<4> {
    static __device__ __forceinline__ void step(uint32_t &x, Context &c) {
        asm volatile("atom.shared.or.b32 %0, [%0], %1;" : "+r"(x) : "r"(c.given.zero) : "memory");
    }
};
struct AtomicSwap : InShared<4> {
    static __device__ __forceinline__ void step(uint32_t &x, Context &c) {
        asm volatile("atom.shared.cas.b32 %0, [%0], %1, %1;" : "+r"(x) : "r"(c.given.zero) : "memory");
    }
};
// A matrix's row of 16 bytes holds the addresses of the rows that four lanes read next.
struct InMatrix {
    using Value = uint32_t;
    static constexpr int kSpan = 0;
    static __device__ Value first(const Context &context, int lane) { return context.shared + lane % 8 * 16; }
};
struct Matrix1 : InMatrix {
    static __device__ __forceinline__ void step(uint32_t &x, Context &) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%0];" : "+r"(x)::"memory");
    }
};
struct Matrix2 : InMatrix {
    static __device__ __forceinline__ void step(uint32_t &x, Context &) {
        asm volatile("{\n.reg .u32 y;\nldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, y}, [%0];\n}" : "+r"(x)::"memory");
    }
};
struct Matrix4 : InMatrix {
    static __device__ __forceinline__ void step(uint32_t &x, Context &) {
        asm volatile("{\n.reg .u32 y, z, w;\nldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, y, z, w}, [%0];\n}"
                     : "+r"(x)::"memory");
    }
};

// Global memory: each word of 8 bytes holds its own address, or the one that is read next.
template <int span> struct InGlobal {
    using Value = uint64_t;
    static constexpr int kSpan = 4;
    static __device__ Value first(const Context &context, int lane) {
        return reinterpret_cast<uint64_t>(context.given.global) + lane * span;
    }
};
template <int span> struct LoadL1 : InGlobal<span> {
    static __device__ __forceinline__ void step(uint64_t &x, Context &) {
        asm volatile("ld.global.ca.u64 %0, [%0];" : "+l"(x)::"memory");
    }
};
struct LoadL1Wide : InGlobal<16> {
    static __device__ __forceinline__ void step(uint64_t &x, Context &) {
        asm volatile("{\n.reg .u64 y;\nld.volatile.global.v2.u64 {%0, y}, [%0];\n}" : "+l"(x)::"memory");
    }
};
struct LoadL2 : InGlobal<16> {
    static __device__ __forceinline__ void step(uint64_t &x, Context &) {
        asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(x)::"memory");
    }
};
struct AtomicL2 : InGlobal<16> {
    static __device__ __forceinline__ void step(uint64_t &x, Context &c) {
        asm volatile("atom.global.or.b64 %0, [%0], %1;" : "+l"(x) : "l"(uint64_t(c.given.zero)) : "memory");
    }
};

// Products of matrices: the sum is what the next one needs.
template <class Sum, int words> struct Product {
    struct Value {
        Sum d[words];
    };
    static constexpr int kSpan = 4;
    static __device__ Value first(const Context &context, int) {
        Value value;
        for (Sum &d : value.d) d = Sum(context.given.zero);
        return value;
    }
};
#define MMA(Name, Shape, Types, A, B)                                                                          \
    struct Name : Product<float, 4> {                                                                          \
        static __device__ __forceinline__ void step(Value &x, Context &c) {                                    \
            asm volatile("mma.sync.aligned." Shape ".row.col.f32." Types ".f32 {%0, %1, %2, %3}, " A ", " B    \
                         ", {%0, %1, %2, %3};"                                                                 \
                         : "+f"(x.d[0]), "+f"(x.d[1]), "+f"(x.d[2]), "+f"(x.d[3])                              \
                         : "r"(c.given.zero), "r"(c.given.one));                                               \
        }                                                                                                      \
    };
MMA(MmaHalf, "m16n8k16", "f16.f16", "{%4, %5, %4, %5}", "{%4, %5}")
MMA(MmaHalf8, "m16n8k8", "f16.f16", "{%4, %5}", "{%4}")
MMA(MmaBf16, "m16n8k16", "bf16.bf16", "{%4, %5, %4, %5}", "{%4, %5}")
MMA(MmaTf32, "m16n8k8", "tf32.tf32", "{%4, %5, %4, %5}", "{%4, %5}")
struct MmaInHalf : Product<uint32_t, 2> {
    static __device__ __forceinline__ void step(Value &x, Context &c) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %2, %3}, {%2, %3}, {%0, %1};"
                     : "+r"(x.d[0]), "+r"(x.d[1])
                     : "r"(c.given.zero), "r"(c.given.one));
    }
};
struct MmaInt8 : Product<int32_t, 4> {
    static __device__ __forceinline__ void step(Value &x, Context &c) {
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %4, %5}, {%4, %5}, "
                     "{%0, %1, %2, %3};"
                     : "+r"(x.d[0]), "+r"(x.d[1]), "+r"(x.d[2]), "+r"(x.d[3])
                     : "r"(c.given.zero), "r"(c.given.one));
    }
};

// Copies and barriers: issue, then wait until it is complete.
struct Waiting : OnRegister {};
template <int through_l1> struct CopyAsync : Waiting {
    static __device__ __forceinline__ void step(uint32_t &x, Context &c) {
        const char *from = static_cast<const char *>(c.given.global) + threadIdx.x * 16;
        if (through_l1) ptx::cp_async_16_through_l1(c.shared + threadIdx.x * 16, from);
        else ptx::cp_async_16(c.shared + threadIdx.x * 16, from);
        ptx::cp_async_commit();
        ptx::cp_async_wait<0>();
    }
};
struct Barrier : Waiting {
    static __device__ __forceinline__ void step(uint32_t &, Context &) { asm volatile("bar.sync 0;" ::: "memory"); }
};
struct WarpBarrier : Waiting {
    static __device__ __forceinline__ void step(uint32_t &, Context &) {
        asm volatile("bar.warp.sync -1;" ::: "memory");
    }
};
struct ClusterBarrier : Waiting {
    static __device__ __forceinline__ void step(uint32_t &, Context &) { ptx::cluster_sync(); }
};
struct ClusterBarrierAlone : Waiting { // orders no memory
    static __device__ __forceinline__ void step(uint32_t &, Context &) {
        asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    }
};
struct Mbarrier : Waiting { // all threads of the block arrive and wait
    static __device__ __forceinline__ void step(uint32_t &, Context &c) {
        ptx::mbarrier_arrive(c.shared);
        ptx::mbarrier_wait(c.shared, c.parity);
        c.parity ^= 1;
    }
};
struct FenceBlock : Waiting {
    static __device__ __forceinline__ void step(uint32_t &, Context &) { asm volatile("fence.acq_rel.cta;" ::: "memory"); }
};
// `count` copies of `bytes` without a tensor map, or boxes with one, from the same place, by a single thread.
template <int bytes, int count, bool box> struct Bulk : Waiting {
    static __device__ __forceinline__ void step(uint32_t &, Context &c) {
        expect(c.shared, bytes * count);
#pragma unroll
        for (int number = 0; number < count; ++number) {
            uint32_t to = c.shared + 1024 + number * bytes;
            if (box) copy_box(to, c.given.map, c.shared);
            else copy_bulk(to, c.given.global, bytes, c.shared);
        }
        ptx::mbarrier_wait(c.shared, c.parity);
        c.parity ^= 1;
    }
};
template <int bytes> struct BulkStore : Waiting { // until shared memory has been read
    static __device__ __forceinline__ void step(uint32_t &, Context &c) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                         static_cast<const char *>(c.given.global) + (1 << 20)),
                     "r"(c.shared + 1024), "r"(bytes)
                     : "memory");
        ptx::store_commit();
        ptx::store_wait<0>();
    }
};
// The other block's shared memory, whose words hold their addresses in the cluster.
struct InCluster {
    using Value = uint32_t;
    static constexpr int kSpan = -1;
    static __device__ Value first(const Context &context, int lane) {
        uint32_t rank, there;
        asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(context.shared + lane * 4), "r"(rank ^ 1));
        return there;
    }
    static __device__ __forceinline__ void step(uint32_t &x, Context &) {
        asm volatile("ld.volatile.shared::cluster.u32 %0, [%0];" : "+r"(x)::"memory");
    }
};

template <class Operation> __device__ void fill(uint32_t shared) {
    constexpr int span = Operation::kSpan;
    for (int word = threadIdx.x; word < 4096; word += blockDim.x) {
        uint32_t address = shared + 4 * word;
        if (span > 0) address = shared + 4 * word / max(span, 1) * span;
        if (span == 0) address = shared + word % 8 * 16;
        if (span < 0) {
            uint32_t rank;
            asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
            asm volatile("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(address) : "r"(rank));
        }
        asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(shared + 4 * word), "r"(address) : "memory");
    }
    __syncthreads();
}

template <class Operation> __device__ Context started(const Operands &given, uint32_t shared, bool barriers) {
    fill<Operation>(shared);
    if (barriers && threadIdx.x == 0) {
        ptx::mbarrier_init(shared, blockDim.x);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (Operation::kSpan < 0) ptx::cluster_sync(); // the other block has filled its memory
    return Context{given, shared, 0};
}

// Cycles of LONG - SHORT steps of thread 0 of block 0, of the second pass, when the code is in the caches.
template <class Operation, bool barriers = false> __global__ void chain(long long *out, Operands given) {
    extern __shared__ __align__(1024) char tile[];
    Context context = started<Operation>(given, static_cast<uint32_t>(__cvta_generic_to_shared(tile)), barriers);
    typename Operation::Value x = Operation::first(context, threadIdx.x % 32);
    long long cycles = 0;
#pragma unroll 1
    for (int pass = 0; pass < 3; ++pass) {
        long long start = now();
#pragma unroll
        for (int step = 0; step < SHORT; ++step) Operation::step(x, context);
        long long middle = now();
#pragma unroll
        for (int step = 0; step < LONG; ++step) Operation::step(x, context);
        cycles = now() - middle - (middle - start);
    }
    if (threadIdx.x == 0 && blockIdx.x == 0) out[0] = cycles;
    reinterpret_cast<typename Operation::Value *>(out)[1024 + threadIdx.x] = x;
    if (Operation::kSpan < 0) ptx::cluster_sync(); // nobody leaves while it is read
}

// Cycles from the first warp's start to the last one's end, of TURNS x CHAINS steps per warp; and when, per block.
template <class Operation> __global__ void __launch_bounds__(1024) rate(long long *out, Operands given) {
    extern __shared__ __align__(1024) char tile[];
    __shared__ long long first, last;
    Context context = started<Operation>(given, static_cast<uint32_t>(__cvta_generic_to_shared(tile)), false);
    if (threadIdx.x == 0) first = 1ll << 62, last = 0;
    typename Operation::Value x[CHAINS];
    for (auto &value : x) value = Operation::first(context, threadIdx.x % 32);
#pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {
        __syncthreads();
        long long start = now();
#pragma unroll 8
        for (int turn = 0; turn < TURNS; ++turn)
#pragma unroll
            for (auto &value : x) Operation::step(value, context);
        long long end = now();
        if (pass == 1 && threadIdx.x % 32 == 0) {
            atomicMin(&first, start);
            atomicMax(&last, end);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = last - first;
    for (int number = 0; number < CHAINS; ++number)
        reinterpret_cast<typename Operation::Value *>(out)[4096 + threadIdx.x * CHAINS + number] = x[number];
}

// ------------------------------------------------------------------------------------------------ wgmma

template <int columns> __device__ __forceinline__ void wgmma(float *d, uint64_t a, uint64_t b);
template <> __device__ __forceinline__ void wgmma<64>(float *d, uint64_t a, uint64_t b) {
    float(&x)[32] = *reinterpret_cast<float(*)[32]>(d);
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
                 "}, %32, %33, 1, 1, 1, 0, 0;\n"
                 : PTX_16(x, 0), PTX_16(x, 16)
                 : "l"(a), "l"(b));
}
template <> __device__ __forceinline__ void wgmma<128>(float *d, uint64_t a, uint64_t b) {
    ptx::wgmma_f16(*reinterpret_cast<float(*)[64]>(d), a, b, true);
}
template <> __device__ __forceinline__ void wgmma<256>(float *d, uint64_t a, uint64_t b) {
    ptx::wgmma_f16(*reinterpret_cast<float(*)[128]>(d), a, b, true);
}

template <int columns, int count> __device__ __forceinline__ long long group(float *d, uint64_t a, uint64_t b) {
    long long start = now();
    ptx::wgmma_fence();
#pragma unroll
    for (int number = 0; number < count; ++number) wgmma<columns>(d, a, b);
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    return now() - start;
}

// Cycles of a group of one product, and of one of 9: the latency, and eight intervals. Both operands in shared memory.
template <int columns> __global__ void __launch_bounds__(256) warpgroup(long long *out, uint32_t zero) {
    extern __shared__ __align__(1024) char tile[];
    for (int word = threadIdx.x; word < 16384; word += blockDim.x) reinterpret_cast<uint32_t *>(tile)[word] = zero;
    ptx::fence_async_shared();
    __syncthreads();
    uint32_t shared = static_cast<uint32_t>(__cvta_generic_to_shared(tile)) + threadIdx.x / 128 * 16384;
    uint64_t a = ptx::Descriptor<128, 64>::of(shared), b = ptx::Descriptor<128, columns>::of(shared + 8192);
    float d[columns / 2];
    for (float &value : d) value = float(zero);
    long long one = 0, nine = 0;
#pragma unroll 1
    for (int pass = 0; pass < 3; ++pass) {
        one = group<columns, 1>(d, a, b);
        __syncthreads();
        nine = group<columns, 9>(d, a, b);
        __syncthreads();
    }
    float sum = 0;
    for (float value : d) sum += value;
    if (threadIdx.x == 0) out[0] = one, out[1] = nine;
    reinterpret_cast<float *>(out)[1024 + threadIdx.x] = sum;
}

// ------------------------------------------------------------------------------------------------ memory

// Wait until the address is there.
__device__ __forceinline__ void complete(uint64_t at) {
    asm volatile("{\n.reg .pred p;\nsetp.eq.u64 p, %0, 0;\n@p trap;\n}" ::"l"(at) : "memory");
}

// Cycles of `steps` loads along a list, from one thread; L1 is bypassed.
__global__ void chase(long long *out, const uint64_t *start, int steps) {
    uint64_t at = reinterpret_cast<uint64_t>(start);
    long long begin = now();
#pragma unroll 4
    for (int step = 0; step < steps; ++step) asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(at)::"memory");
    complete(at);
    out[0] = now() - begin;
}

// Cycles of a load that hits L2, of each of `lines` lines: near and far of the SM.
__global__ void each_line(long long *out, const uint64_t *first, int lines) {
    for (int line = 0; line < lines; ++line) {
        uint64_t at = reinterpret_cast<uint64_t>(first + line * 16);
        asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(at)::"memory");
        asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(at)::"memory");
        complete(at);
        long long start = now();
#pragma unroll
        for (int step = 0; step < 8; ++step) asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(at)::"memory");
        complete(at);
        out[line] = now() - start;
    }
}

enum Way { READ, WRITE, COPY };
const int AHEAD = 4; // loads of a thread in flight

// Each block goes over its share of `bytes`, `passes` times; the cycles of the last pass, per block.
template <Way way> __global__ void __launch_bounds__(1024, 2) stream(long long *out, uint4 *to, const uint4 *from, size_t count, int passes) {
    __shared__ long long first, last;
    uint4 sum = {threadIdx.x, 0, 0, 0};
    for (int pass = 0; pass < passes; ++pass) {
        if (threadIdx.x == 0) first = 1ll << 62, last = 0;
        __syncthreads();
        long long start = now();
        size_t stride = size_t(gridDim.x) * blockDim.x;
#pragma unroll 1
        for (size_t at = size_t(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += AHEAD * stride) {
            uint4 x[AHEAD];
#pragma unroll
            for (int number = 0; number < AHEAD; ++number) {
                x[number] = sum;
                if (way != WRITE)
                    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                                 : "=r"(x[number].x), "=r"(x[number].y), "=r"(x[number].z), "=r"(x[number].w)
                                 : "l"(from + at + number * stride)
                                 : "memory");
            }
#pragma unroll
            for (int number = 0; number < AHEAD; ++number) {
                if (way != READ) to[at + number * stride] = x[number];
                else sum.x ^= x[number].x, sum.y ^= x[number].y, sum.z ^= x[number].z, sum.w ^= x[number].w;
            }
        }
        if (way == READ && (sum.x ^ sum.y ^ sum.z ^ sum.w) == 12345) to[threadIdx.x] = sum;
        long long end = now();
        if (threadIdx.x % 32 == 0) {
            atomicMin(&first, start);
            atomicMax(&last, end);
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = last - first;
}

// ------------------------------------------------------------------------------------------------ instructions

const int SECTION = 256, SECTIONS = 64; // 4 KB each, 256 KB in all

// Straight-line code of `sections` sections, each warp `passes` times; cycles of every pass of warp 0.
__global__ void straight(long long *out, float a, int sections, int passes) {
    float x[8] = {a, a, a, a, a, a, a, a};
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
        __syncthreads();
        long long start = now();
#pragma unroll
        for (int section = 0; section < SECTIONS; ++section) {
            if (section >= sections) break;
#pragma unroll
            for (int number = 0; number < SECTION; ++number)
                asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x[number % 8]) : "f"(a));
        }
        long long end = now();
        if (threadIdx.x == 0 && blockIdx.x == 0) out[pass] = end - start;
    }
    float sum = 0;
    for (float value : x) sum += value;
    if (sum == 12345.0f) out[100] = 1;
}

// Straight-line code that is short, for ncu: the first lines of a kernel may come otherwise than the rest.
template <int count> __global__ void short_code(float *to, float a) {
    float x[8] = {a, a, a, a, a, a, a, a};
#pragma unroll
    for (int number = 0; number < count; ++number)
        asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x[number % 8]) : "f"(a));
    if (x[0] + x[1] + x[2] + x[3] + x[4] + x[5] + x[6] + x[7] == 12345.0f) *to = a;
}

// Cycles and nanoseconds of as many cycles.
__global__ void spin(long long *out, long long cycles) {
    long long start = now(), begin, end;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin)::"memory");
    while (now() - start < cycles) {
    }
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end)::"memory");
    out[0] = now() - start;
    out[1] = end - begin;
}

__global__ void nothing() {}

// The least that reads and writes memory.
__global__ void pass_on(uint32_t *to, const uint32_t *from) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    to[at] = from[at];
}

// ------------------------------------------------------------------------------------------------ on the host

long long *out;
Operands operands;
int processors;

void say(const std::string &name, const char *unit, const std::vector<double> &values) {
    printf("%s\t%s", name.c_str(), unit);
    for (double value : values) printf("\t%.4f", value);
    printf("\n");
    fflush(stdout);
}

template <class Kernel, class... Arguments>
void launch(Kernel kernel, int blocks, int threads, int cluster, Arguments... arguments) {
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.dynamicSmemBytes = SHARED_BYTES;
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {unsigned(cluster), 1, 1};
    config.attrs = &attribute;
    config.numAttrs = cluster > 1;
    CHECK(cudaLaunchKernelEx(&config, kernel, arguments...));
    CHECK(cudaDeviceSynchronize());
}

std::vector<long long> results(int count) {
    std::vector<long long> values(count);
    CHECK(cudaMemcpy(values.data(), out, count * sizeof(long long), cudaMemcpyDeviceToHost));
    return values;
}

// `per_step` instructions of one kind are in a step.
template <class Operation, bool barriers = false>
void latency(const std::string &name, int threads = 32, int cluster = 1, double per_step = 1) {
    std::vector<double> values;
    for (int repeat = 0; repeat < REPEATS; ++repeat) {
        launch(chain<Operation, barriers>, cluster, threads, cluster, out, operands);
        values.push_back(double(results(1)[0]) / (LONG - SHORT) / per_step);
    }
    say(name, "cycles", values);
}

// Warp instructions per cycle of one SM, alone.
template <class Operation> void rate_of(const std::string &name, double per_step = 1, int threads = 1024) {
    std::vector<double> values;
    for (int repeat = 0; repeat < REPEATS; ++repeat) {
        launch(rate<Operation>, 1, threads, 1, out, operands);
        values.push_back(threads / 32 * double(CHAINS) * TURNS * per_step / results(1)[0]);
    }
    say(name + ", rate", "per cycle and SM", values);
}

template <class Operation> void both(const std::string &name, double per_step = 1) {
    latency<Operation>(name, 32, 1, per_step);
    rate_of<Operation>(name, per_step);
}

template <int columns> void warpgroup_of(const std::string &name) {
    for (int groups : {1, 2}) {
        std::vector<double> latencies, intervals;
        for (int repeat = 0; repeat < REPEATS; ++repeat) {
            launch(warpgroup<columns>, 1, 128 * groups, 1, out, 0u);
            std::vector<long long> cycles = results(2);
            latencies.push_back(cycles[0]);
            intervals.push_back((cycles[1] - cycles[0]) / 8.0);
        }
        std::string many = groups == 1 ? "" : ", two warpgroups";
        say(name + " alone, with its wait" + many, "cycles", latencies);
        say(name + " interval" + many, "cycles", intervals);
    }
}

// A ring through `bytes`, lines of 128 bytes in random order; returns where it starts.
uint64_t *ring(uint64_t *memory, size_t bytes, size_t stride) {
    size_t lines = bytes / stride;
    std::vector<uint32_t> order(lines);
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), std::mt19937(41));
    std::vector<uint64_t> content(bytes / 8, 0);
    for (size_t number = 0; number < lines; ++number)
        content[order[number] * (stride / 8)] =
            reinterpret_cast<uint64_t>(memory + order[(number + 1) % lines] * (stride / 8));
    CHECK(cudaMemcpy(memory, content.data(), bytes, cudaMemcpyHostToDevice));
    return memory + order[0] * (stride / 8);
}

double clock_mhz() {
    spin<<<1, 1>>>(out, 20'000'000);
    CHECK(cudaDeviceSynchronize());
    std::vector<long long> taken = results(2);
    return 1000.0 * taken[0] / taken[1];
}

void memory_latencies(char *large, size_t large_bytes) {
    uint64_t *memory = reinterpret_cast<uint64_t *>(large);
    std::vector<double> values;
    for (size_t kilobytes : {256, 4096, 16384, 32768}) { // hits in L2, after a pass that fills it
        uint64_t *start = ring(memory, kilobytes << 10, 128);
        int steps = int(std::min<size_t>(kilobytes << 10 >> 7, 65536));
        values.clear();
        for (int repeat = 0; repeat < 6; ++repeat) {
            launch(chase, 1, 1, 1, out, static_cast<const uint64_t *>(start), steps);
            if (repeat) values.push_back(double(results(1)[0]) / steps);
        }
        say("L2 hit, " + std::to_string(kilobytes) + " KB", "cycles", values);
    }
    for (size_t megabytes : {4, 32, 256, 1024}) { // DRAM: nothing of it is in L2
        uint64_t *start = ring(memory, megabytes << 20, 512);
        int steps = int(std::min<size_t>(megabytes << 20 >> 9, 16384));
        values.clear();
        for (int repeat = 0; repeat < 6; ++repeat) {
            CHECK(cudaMemset(large + large_bytes / 2, repeat, large_bytes / 2));
            launch(chase, 1, 1, 1, out, static_cast<const uint64_t *>(start), steps);
            values.push_back(double(results(1)[0]) / steps);
        }
        say("DRAM, " + std::to_string(megabytes) + " MB", "cycles", values);
    }
    const int lines = 2048;
    std::vector<uint64_t> own(lines * 16);
    for (size_t word = 0; word < own.size(); ++word) own[word] = reinterpret_cast<uint64_t>(memory + word);
    CHECK(cudaMemcpy(memory, own.data(), own.size() * 8, cudaMemcpyHostToDevice));
    launch(each_line, 1, 1, 1, out, static_cast<const uint64_t *>(memory), lines);
    values.clear();
    for (long long cycles : results(lines)) values.push_back(cycles / 8.0);
    say("L2 hit, each of 2048 lines", "cycles", values);
}

template <Way way> void stream_of(const std::string &name, char *large, size_t bytes, size_t apart, int passes) {
    for (int blocks : {1, processors, 2 * processors}) {
        size_t count = bytes / sizeof(uint4) / (size_t(blocks) * 1024 * AHEAD) * (size_t(blocks) * 1024 * AHEAD);
        if (blocks == 1) count = std::min(count, size_t(4 << 20) / sizeof(uint4)); // else it takes long
        std::vector<double> values;
        for (int repeat = 0; repeat < 7; ++repeat) {
            if (passes == 1) CHECK(cudaMemset(large + 2 * apart, repeat, 256 << 20)); // out of L2
            CHECK(cudaFuncSetAttribute(stream<way>, cudaFuncAttributePreferredSharedMemoryCarveout, 0));
            stream<way><<<blocks, 1024>>>(out, reinterpret_cast<uint4 *>(large + apart),
                                          reinterpret_cast<const uint4 *>(large), count, passes);
            CHECK(cudaDeviceSynchronize());
            std::vector<long long> cycles = results(blocks);
            values.push_back(double(count) * sizeof(uint4) * (way == COPY ? 2 : 1) /
                             *std::max_element(cycles.begin(), cycles.end()) / std::min(blocks, processors));
        }
        std::string who = blocks == 1 ? ", one SM" : blocks == processors ? ", all SMs" : ", all SMs, 2 blocks each";
        say(name + who, "bytes per cycle and SM", values);
    }
}

void instructions() {
    for (int threads : {32, 128, 512})
        for (int sections : {1, 2, 4, 7, 8, 16, 24, 32, 48, 64}) {
            std::vector<double> cold, warm;
            for (int repeat = 0; repeat < 7; ++repeat) {
                launch(straight, 1, threads, 1, out, 1.0f, sections, 4);
                std::vector<long long> cycles = results(4);
                cold.push_back(double(cycles[0]) / (sections * SECTION));
                warm.push_back(double(cycles[3]) / (sections * SECTION));
            }
            std::string name = std::to_string(4 * sections) + " KB of code, " + std::to_string(threads / 32) + " warps";
            say(name + ", first pass", "cycles per instruction", cold);
            say(name + ", again", "cycles per instruction", warm);
        }
}

CUtensorMap box_map(void *memory, uint32_t words, uint32_t rows) {
    CUtensorMap map;
    cuuint64_t sizes[2] = {32, 4096}, strides[1] = {128};
    cuuint32_t box[2] = {words, rows}, steps[2] = {1, 1};
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(dlsym(library, "cuTensorMapEncodeTiled"));
    CUresult result = encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, memory, sizes, strides, box, steps,
                             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                             CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "cuTensorMapEncodeTiled: %d\n", int(result));
        exit(1);
    }
    return map;
}

template <int bytes, int width = 128> void boxes(const std::string &name, void *memory) {
    CUtensorMap host = box_map(memory, width / 4, bytes / width), *device;
    CHECK(cudaMalloc(&device, sizeof host));
    CHECK(cudaMemcpy(device, &host, sizeof host, cudaMemcpyHostToDevice));
    operands.map = device;
    latency<Bulk<bytes, 1, true>, true>(name + ", round trip", 1);
    latency<Bulk<bytes, 4, true>, true>(name + ", four, round trip", 1);
    CHECK(cudaFree(device));
}

// For ncu: launches of kernels that do little, in this order, each three times.
void launches(char *large) {
    for (int repeat = 0; repeat < 3; ++repeat) {
        for (int threads : {32, 256, 1024})
            for (int blocks : {1, 132, 264, 528, 1056, 4224, 16896, 135168}) {
                nothing<<<blocks, threads>>>();
                CHECK(cudaDeviceSynchronize());
            }
        for (int threads : {32, 256, 1024})
            for (int blocks : {1, 132, 264, 528, 1056, 4224, 16896}) {
                pass_on<<<blocks, threads>>>(reinterpret_cast<uint32_t *>(large + (1 << 30)), reinterpret_cast<uint32_t *>(large));
                CHECK(cudaDeviceSynchronize());
            }
        for (size_t kilobytes : {256, 4096}) { // ncu has emptied L2: 2,048 loads that miss, or as many and 3 times as many hits
            const uint64_t *start = ring(reinterpret_cast<uint64_t *>(large), kilobytes << 10, kilobytes << 10 >> 11);
            for (int steps : {2048, 8192}) launch(chase, 1, 1, 1, out, start, steps);
        }
        for (int sections : {1, 2, 4, 8, 16, 32, 64})
            for (int blocks : {1, 132}) launch(straight, blocks, 128, 1, out, 1.0f, sections, 1);
        float *to = reinterpret_cast<float *>(large);
        launch(short_code<8>, 132, 128, 1, to, 1.0f);
        launch(short_code<32>, 132, 128, 1, to, 1.0f);
        launch(short_code<64>, 132, 128, 1, to, 1.0f);
        launch(short_code<128>, 132, 128, 1, to, 1.0f);
    }
}

int main(int count, char **words) {
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    processors = properties.multiProcessorCount;
    int driver = 0, runtime = 0;
    CHECK(cudaDriverGetVersion(&driver));
    CHECK(cudaRuntimeGetVersion(&runtime));
    printf("gpu\t%s, %d SMs, driver %d, runtime %d\n", properties.name, processors, driver, runtime);
    const size_t large_bytes = size_t(3) << 30;
    char *large;
    CHECK(cudaMalloc(&large, large_bytes));
    CHECK(cudaMemset(large, 0, large_bytes));
    CHECK(cudaMalloc(&out, 1 << 22));
    if (count > 1 && !strcmp(words[1], "launches")) {
        launches(large);
        return 0;
    }

    say("clock of the SMs", "MHz", {clock_mhz(), clock_mhz(), clock_mhz()});
    std::vector<uint64_t> own(1 << 18);
    for (size_t word = 0; word < own.size(); ++word)
        own[word] = reinterpret_cast<uint64_t>(large) + word / 2 * 16; // both words of 16 bytes name them
    CHECK(cudaMemcpy(large, own.data(), own.size() * 8, cudaMemcpyHostToDevice));
    operands = {large, nullptr, 1, 0};

    both<AddXor>("IADD3, LOP3", 2);
    both<Shift>("SHF");
    both<MultiplyAdd>("IMAD");
    both<Minimum>("VIMNMX", 2);
    both<Permute>("PRMT");
    both<SetSelect>("ISETP and SEL");
    both<Fma>("FFMA");
    both<Add>("FADD");
    both<Multiply>("FMUL");
    both<FloatMaximum>("FMNMX", 2);
    both<HalfFma>("HFMA2");
    both<DoubleFma>("DFMA");
    both<DoubleAdd>("DADD");
    both<DoubleMultiply>("DMUL");
    both<Exponential>("MUFU.EX2");
    both<Logarithm>("MUFU.LG2");
    both<InverseRoot>("MUFU.RSQ");
    both<Sine>("MUFU.SIN with its FMUL");
    both<FloatToInt>("I2F, F2I", 2);
    both<ToDouble>("F2F, both ways", 2);
    both<ToHalf>("F2FP and HADD2.F32", 2);
    both<Count>("POPC");
    both<LeadingBit>("FLO");
    both<Reverse>("BREV");
    both<Shuffle>("SHFL");
    both<Ballot>("ISETP and VOTE");
    both<Reduce>("REDUX");
    both<Constant>("LDC");
    both<LoadShared>("LDS.32");
    both<LoadShared64>("LDS.64");
    both<LoadShared128>("LDS.128");
    both<LoadConflicted<2>>("LDS.32, 2 wavefronts");
    both<LoadConflicted<8>>("LDS.32, 8 wavefronts");
    both<LoadConflicted<32>>("LDS.32, 32 wavefronts");
    both<StoreLoad>("STS and LDS");
    for (int threads : {32, 64, 128, 256}) { // warps 0 to 3 are on a sub-core each
        std::string warps = ", " + std::to_string(threads / 32) + " warps";
        rate_of<LoadShared>("LDS.32" + warps, 1, threads);
        rate_of<LoadConflicted<8>>("LDS.32, 8 wavefronts" + warps, 1, threads);
        rate_of<Store<4>>("STS.32" + warps, 1, threads);
        rate_of<Matrix4>("LDSM.M88.4" + warps, 1, threads);
        rate_of<MmaHalf>("HMMA.16816.F32" + warps, 1, threads);
    }
    rate_of<Store<4>>("STS.32");
    rate_of<Store<8>>("STS.64");
    rate_of<Store<16>>("STS.128");
    both<AtomicOr>("ATOMS.OR");
    both<AtomicSwap>("ATOMS.CAS");
    both<Matrix1>("LDSM.M88");
    both<Matrix2>("LDSM.M88.2");
    both<Matrix4>("LDSM.M88.4");
    both<LoadL1<16>>("LDG.64 that hits L1, lanes 16 bytes apart");
    both<LoadL1<32>>("LDG.64 that hits L1, lanes 32 bytes apart");
    both<LoadL1<128>>("LDG.64 that hits L1, lanes 128 bytes apart");
    both<LoadL1Wide>("LDG.128.STRONG, lanes 16 bytes apart");
    both<LoadL2>("LDG.64 that hits L2, lanes 16 bytes apart");
    both<AtomicL2>("ATOMG.OR.64 in L2, lanes 16 bytes apart");
    both<MmaHalf>("HMMA.16816.F32");
    both<MmaBf16>("HMMA.16816.F32.BF16");
    both<MmaHalf8>("HMMA.1688.F32");
    both<MmaTf32>("HMMA.1688.F32.TF32");
    both<MmaInHalf>("HMMA.16816.F16");
    both<MmaInt8>("IMMA.16832.S8");
    warpgroup_of<64>("HGMMA.64x64x16");
    warpgroup_of<128>("HGMMA.64x128x16");
    warpgroup_of<256>("HGMMA.64x256x16");
    for (int threads : {32, 128, 256, 512, 1024}) {
        std::string warps = ", " + std::to_string(threads / 32) + " warps";
        latency<Barrier>("BAR.SYNC" + warps, threads);
        latency<Mbarrier, true>("mbarrier: arrive and wait" + warps, threads);
        latency<CopyAsync<0>>("LDGSTS.BYPASS.128, round trip" + warps, threads);
        latency<CopyAsync<1>>("LDGSTS.128, round trip" + warps, threads);
    }
    latency<WarpBarrier>("WARPSYNC");
    latency<FenceBlock>("MEMBAR.CTA");
    for (int blocks : {2, 4, 8}) {
        std::string size = ", " + std::to_string(blocks) + " blocks";
        latency<ClusterBarrier>("cluster barrier and its MEMBAR.GPU" + size, 128, blocks);
        latency<ClusterBarrierAlone>("cluster barrier" + size, 128, blocks);
    }
    latency<InCluster>("LD of another block's shared memory", 32, 2);
    latency<Bulk<128, 1, false>, true>("UBLKCP, 128 bytes, round trip", 1);
    latency<Bulk<1024, 1, false>, true>("UBLKCP, 1 KB, round trip", 1);
    latency<Bulk<4096, 1, false>, true>("UBLKCP, 4 KB, round trip", 1);
    latency<Bulk<16384, 1, false>, true>("UBLKCP, 16 KB, round trip", 1);
    latency<Bulk<16384, 4, false>, true>("UBLKCP, four of 16 KB, round trip", 1);
    latency<BulkStore<4096>>("UBLKCP to global memory, 4 KB, until read", 1);
    latency<BulkStore<16384>>("UBLKCP to global memory, 16 KB, until read", 1);
    boxes<128>("UTMALDG.2D, 128 bytes", large);
    boxes<1024>("UTMALDG.2D, 1 KB", large);
    boxes<4096>("UTMALDG.2D, 4 KB", large);
    boxes<16384>("UTMALDG.2D, 16 KB", large);
    boxes<4096, 16>("UTMALDG.2D, 4 KB, rows of 16 bytes", large);
    boxes<4096, 32>("UTMALDG.2D, 4 KB, rows of 32 bytes", large);
    boxes<4096, 64>("UTMALDG.2D, 4 KB, rows of 64 bytes", large);
    instructions();
    memory_latencies(large, large_bytes);
    stream_of<READ>("L2 read, 18 MB", large, 18 << 20, size_t(1) << 30, 3);
    stream_of<WRITE>("L2 write, 18 MB", large, 18 << 20, size_t(1) << 30, 3);
    stream_of<COPY>("L2 copy, 18 MB", large, 18 << 20, size_t(1) << 30, 3);
    stream_of<READ>("DRAM read, 1 GB", large, size_t(1) << 30, size_t(1) << 30, 1);
    stream_of<WRITE>("DRAM write, 1 GB", large, size_t(1) << 30, size_t(1) << 30, 1);
    stream_of<COPY>("DRAM copy, 1 GB", large, size_t(1) << 30, size_t(1) << 30, 1);
    return 0;
}
