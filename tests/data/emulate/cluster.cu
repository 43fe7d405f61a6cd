// Instructions that reach shared memory other than through LDS, STS and wgmma: which of them does ncu count, and how?
// Lane i accesses byte a * i (mod 4096) of the tile; `n` is -1 never, so that nothing is optimised away.
#include <cstdint>

__device__ uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ uint32_t mapped(uint32_t address, uint32_t rank) {
    uint32_t there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

__device__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

__device__ void wait(uint32_t barrier, uint32_t parity) {
    asm volatile(
        "{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra again;\n}"
        ::"r"(barrier), "r"(parity) : "memory");
}

extern "C" __global__ void __launch_bounds__(32) controls(uint64_t a, uint64_t b, int n, char *buffer) {
    __shared__ __align__(128) uint32_t tile[2048];
    uint32_t at = shared_address(tile) + (uint32_t)(a * threadIdx.x) % 4096, value, sum = 0;
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(n) : "memory");
    __syncwarp();
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(at) : "memory");
    sum += value;
    uint64_t generic = (uint64_t)(tile) + (a * threadIdx.x) % 4096;
    if (b == 12345) generic = (uint64_t)buffer;  // a generic address whose space the compiler cannot know
    asm volatile("st.b32 [%0], %1;" ::"l"(generic), "r"(n) : "memory");
    asm volatile("ld.b32 %0, [%1];" : "=r"(value) : "l"(generic) : "memory");
    sum += value;
    asm volatile("ld.v4.b32 {%0, _, _, _}, [%1];" : "=r"(value) : "l"(generic & ~15ull) : "memory");
    sum += value;
    asm volatile("atom.add.u32 %0, [%1], %2;" : "=r"(value) : "l"(generic), "r"(n) : "memory");
    sum += value;
    if (n == -1) ((uint32_t *)buffer)[threadIdx.x] = sum;
}

extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(32)
distributed(uint64_t a, uint64_t b, int n, char *buffer) {
    __shared__ __align__(128) uint32_t tile[2048];
    __shared__ uint64_t barrier;
    uint32_t rank = b == 0 ? blockIdx.x % 2 : 1 - blockIdx.x % 2;  // one's own memory, or the peer's
    uint32_t at = mapped(shared_address(tile) + (uint32_t)(a * threadIdx.x) % 4096, rank);
    uint32_t here = shared_address(&barrier), there = mapped(here, rank), value, sum = 0;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(here) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    cluster_sync();
    asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(at), "r"(n) : "memory");
    asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(value) : "r"(at) : "memory");
    sum += value;
    asm volatile("ld.shared::cluster.v4.b32 {%0, _, _, _}, [%1];" : "=r"(value) : "r"(at & ~15u) : "memory");
    sum += value;
    asm volatile("atom.shared::cluster.add.u32 %0, [%1], %2;" : "=r"(value) : "r"(at), "r"(n) : "memory");
    sum += value;
    asm volatile("red.shared::cluster.add.u32 [%0], %1;" ::"r"(at), "r"(n) : "memory");
    cluster_sync();
    if (threadIdx.x == 0)
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(here), "r"(32 * 4 + 32 * 16 + 32 * 4) : "memory");
    cluster_sync();
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(at), "r"(n), "r"(there) : "memory");
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %1, %1, %1}, [%2];" ::"r"(at & ~15u), "r"(n), "r"(there) : "memory");
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];" ::"r"(at), "r"(n), "r"(there) : "memory");
    wait(here, 0);
    cluster_sync();
    if (threadIdx.x == 0)
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
    wait(here, 1);
    cluster_sync();
    if (n == -1) ((uint32_t *)buffer)[threadIdx.x] = sum;
}

extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(32)
bulk(uint64_t a, uint64_t b, int n, char *buffer) {
    __shared__ __align__(1024) uint32_t tile[2048];
    __shared__ uint64_t barrier;
    uint32_t here = shared_address(&barrier), source = shared_address(tile);
    uint32_t peer = 1 - blockIdx.x % 2, there = mapped(here, peer), target = mapped(source + 4096, peer);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(here) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(here), "r"(2048 + 1024) : "memory");
    }
    cluster_sync();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], 2048;" ::"l"(buffer + 4096) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 2048, [%2];" ::"r"(source), "l"(buffer + 4096), "r"(here) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];" ::"r"(target), "r"(source), "r"(there) : "memory");
    }
    wait(here, 0);
    cluster_sync();
    if (threadIdx.x == 0) {
        asm volatile("fence.proxy.async;" ::: "memory");
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 2048;" ::"l"(buffer + 8192), "r"(source) : "memory");
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], 2048;" ::"l"(buffer + 16384), "r"(source) : "memory");
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
        asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(here) : "memory");
    }
    cluster_sync();
}

extern "C" __global__ void __launch_bounds__(32) tensors(uint64_t a, uint64_t b, int n, char *buffer) {
    __shared__ __align__(1024) uint32_t tile[256];
    __shared__ uint64_t barrier;
    const uint32_t here = shared_address(&barrier), box = shared_address(tile);
    const char *map = buffer + (1 << 20) - 128; // where bench/recording/hopper/launch.cu puts it
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(here) : "memory");
        asm volatile("fence.proxy.async;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(here) : "memory");
        asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
        asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(map), "r"((int)a), "r"((int)b) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     ::"r"(box), "l"(map), "r"((int)a), "r"((int)b), "r"(here) : "memory");
    }
    __syncwarp();
    wait(here, 0);
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                     ::"l"(map), "r"((int)a), "r"((int)b), "r"(box) : "memory");
        asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];"
                     ::"l"(map), "r"((int)a), "r"((int)b), "r"(box) : "memory");
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    }
    __syncwarp();
    if (n == -1) buffer[threadIdx.x] = (char)tile[threadIdx.x];
}
