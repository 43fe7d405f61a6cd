// Kernels of sm_90a: wgmma, tensor copies, mbarriers, clusters. `map` is copied from, 64 x 64 elements of 16 bits a box.
#include <cstdint>
#include <cuda.h>

namespace {

constexpr int kStages = 3;
constexpr int kBox = 64 * 64 * 2;
constexpr int kThreads = 128; // of a warpgroup

__device__ uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ void init(uint32_t barrier, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ void arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ void expect(uint32_t barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ void wait(uint32_t barrier, int parity) {
    uint32_t done;
    do {
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    } while (!done);
}

__device__ void load(uint32_t tile, const CUtensorMap &map, int x, int y, uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(tile), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}

__device__ void load_for_all(uint32_t tile, const CUtensorMap &map, int x, int y, uint32_t barrier, uint16_t mask) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1, {%2, %3}], [%4], %5;"
                 ::"r"(tile), "l"(&map), "r"(x), "r"(y), "r"(barrier), "h"(mask) : "memory");
}

__device__ uint64_t descriptor(uint32_t address) { // K-major, 128-byte swizzle
    return (uint64_t)(address >> 4 & 0x3FFF) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

__device__ void multiply(float (&d)[32], uint32_t a, uint32_t b) { // 64 x 64 x 64
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int k = 0; k < 4; k++)
        asm volatile(
            "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
            "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
            "%32, %33, p, 1, 1, 0, 0;\n}"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
              "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
              "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
              "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
            : "l"(descriptor(a + 32 * k)), "l"(descriptor(b + 32 * k)));
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}

__device__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

__device__ uint32_t at_rank(uint32_t address, uint32_t rank) {
    uint32_t there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

struct Pipeline {
    uint64_t full[kStages], empty[kStages];
};

} // namespace

// One producer warpgroup, two consumers; the result goes through shared memory, whose rows have `pitch` words.
extern "C" __global__ void __launch_bounds__(3 * kThreads, 1)
specialised(const __grid_constant__ CUtensorMap map, float *out, int tiles, int pitch) {
    extern __shared__ __align__(1024) char smem[];
    __shared__ Pipeline pipeline;
    const uint32_t a = shared_address(smem), b = a + 2 * kStages * kBox;
    const int group = threadIdx.x / kThreads;
    if (threadIdx.x == 0)
        for (int s = 0; s < kStages; s++) {
            init(shared_address(&pipeline.full[s]), 1);
            init(shared_address(&pipeline.empty[s]), 2);
        }
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            for (int t = 0; t < tiles; t++) {
                const int s = t % kStages;
                wait(shared_address(&pipeline.empty[s]), (t / kStages & 1) ^ 1);
                const uint32_t full = shared_address(&pipeline.full[s]);
                expect(full, 3 * kBox);
                load(a + 2 * s * kBox, map, t * 64, blockIdx.y * 128, full);
                load(a + (2 * s + 1) * kBox, map, t * 64, blockIdx.y * 128 + 64, full);
                load(b + s * kBox, map, t * 64, blockIdx.x * 64, full);
            }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        float d[32] = {};
        for (int t = 0; t < tiles; t++) {
            const int s = t % kStages;
            wait(shared_address(&pipeline.full[s]), t / kStages & 1);
            multiply(d, a + (2 * s + group - 1) * kBox, b + s * kBox);
            if (threadIdx.x % kThreads == 0) arrive(shared_address(&pipeline.empty[s]));
        }
        asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory"); // all of the group are past their last tile
        float *mine = (float *)smem + (group - 1) * 4096;
        const int row = threadIdx.x % kThreads / 4;
        for (int i = 0; i < 8; i++) mine[row * pitch + i * 4 + threadIdx.x % 4] = d[4 * i] + d[4 * i + 1];
        asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
        out[threadIdx.x] = mine[threadIdx.x % kThreads];
    }
}

// Clusters of two: each block copies half of B to both, and tells both when a stage is free.
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(2 * kThreads)
multicast(const __grid_constant__ CUtensorMap map, float *out, int tiles) {
    extern __shared__ __align__(1024) char smem[];
    __shared__ Pipeline pipeline;
    const uint32_t a = shared_address(smem), b = a + kStages * kBox;
    const int rank = blockIdx.x % 2;
    if (threadIdx.x == 0)
        for (int s = 0; s < kStages; s++) {
            init(shared_address(&pipeline.full[s]), 1);
            init(shared_address(&pipeline.empty[s]), 2);
        }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    cluster_sync();
    if (threadIdx.x == 0) {
        for (int t = 0; t < tiles; t++) {
            const int s = t % kStages;
            wait(shared_address(&pipeline.empty[s]), (t / kStages & 1) ^ 1);
            const uint32_t full = shared_address(&pipeline.full[s]);
            expect(full, 3 * kBox);
            load(a + s * kBox, map, t * 64, blockIdx.x * 64, full);
            load_for_all(b + (2 * s + rank) * kBox, map, t * 64, rank * 64, full, 3);
        }
    } else if (threadIdx.x >= kThreads) {
        float d[32] = {};
        for (int t = 0; t < tiles; t++) {
            const int s = t % kStages;
            wait(shared_address(&pipeline.full[s]), t / kStages & 1);
            multiply(d, a + s * kBox, b + 2 * s * kBox);
            if (threadIdx.x % kThreads < 2)
                asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"
                             ::"r"(at_rank(shared_address(&pipeline.empty[s]), threadIdx.x % kThreads)) : "memory");
        }
        out[threadIdx.x] = d[0];
    }
    cluster_sync();
}

// A warp puts one stride after another into one word, and another warp stores with it: out of order, the counts differ.
extern "C" __global__ void __launch_bounds__(64) mailbox(int *out, int letters) {
    __shared__ int tile[1024];
    __shared__ int stride;
    __shared__ uint64_t full, empty;
    if (threadIdx.x == 0) {
        init(shared_address(&full), 1);
        init(shared_address(&empty), 32);
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        for (int i = 0; i < letters; i++) {
            wait(shared_address(&full), i & 1);
            ((volatile int *)tile)[threadIdx.x * stride] = i;
            arrive(shared_address(&empty));
        }
    } else if (threadIdx.x == 32) {
        for (int i = 0; i < letters; i++) {
            wait(shared_address(&empty), i & 1 ^ 1);
            *(volatile int *)&stride = 1 << i;
            arrive(shared_address(&full));
        }
    }
    out[threadIdx.x] = tile[threadIdx.x];
}

// The same with the states that arrivals return, of all threads, and with cp.async.
extern "C" __global__ void __launch_bounds__(64) tokens(const int *in, int *out, int rounds) {
    __shared__ int tile[1024];
    __shared__ int stride;
    __shared__ uint64_t barrier, copied;
    if (threadIdx.x == 0) {
        init(shared_address(&barrier), 64);
        init(shared_address(&copied), 64);
    }
    __syncthreads();
    for (int i = 0; i < rounds; i++) {
        if (threadIdx.x == 40) *(volatile int *)&stride = 1 << i;
        uint64_t state;
        asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(shared_address(&barrier)) : "memory");
        uint32_t done;
        do {
            asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                         : "=r"(done) : "r"(shared_address(&barrier)), "l"(state) : "memory");
        } while (!done);
        ((volatile int *)tile)[threadIdx.x % 32 * stride] = i;
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(tile + threadIdx.x)), "l"(in + threadIdx.x) : "memory");
        asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&copied)) : "memory");
        wait(shared_address(&copied), i & 1);
    }
    out[threadIdx.x] = tile[threadIdx.x];
}

// Clusters of two: lane i accesses word i * stride of its own block and of the other one, by every kind of address.
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(32) neighbours(int *out, int stride) {
    __shared__ int tile[1024];
    const uint32_t mine = shared_address(tile + threadIdx.x * stride), peer = at_rank(mine, 1 - blockIdx.x % 2);
    int sum = 0, value;
    cluster_sync();
    asm volatile("st.shared.b32 [%0], 1;" ::"r"(mine) : "memory");
    asm volatile("st.shared::cluster.b32 [%0], 2;" ::"r"(at_rank(mine, blockIdx.x % 2)) : "memory");
    asm volatile("st.shared::cluster.b32 [%0], 3;" ::"r"(peer) : "memory");
    asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(value) : "r"(peer) : "memory");
    sum += value;
    asm volatile("atom.shared::cluster.add.u32 %0, [%1], 1;" : "=r"(value) : "r"(at_rank(mine, blockIdx.x % 2)) : "memory");
    sum += value;
    asm volatile("atom.shared::cluster.add.u32 %0, [%1], 1;" : "=r"(value) : "r"(peer) : "memory");
    cluster_sync();
    out[threadIdx.x] = sum + value;
}
