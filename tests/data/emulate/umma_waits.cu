// A tile that a bulk copy brings, and a tcgen05.mma that reads it: after a wait for its bytes, or before. Never run on
// hardware.
#include <cstdint>

namespace {

constexpr int kRowsA = 128, kRowsB = 64, kBytes = (kRowsA + kRowsB) * 32, kColumns = 64;

__device__ uint32_t shared(const void *at) { return static_cast<uint32_t>(__cvta_generic_to_shared(at)); }

__device__ void wait(uint32_t barrier) {
    uint32_t done;
    do {
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done) : "r"(barrier) : "memory");
    } while (!done);
}

// Without swizzle: 8 rows of 16 bytes are together, and the second 16 bytes of the rows behind the first of all.
__device__ uint64_t descriptor(uint32_t at, int rows) {
    return at >> 4 | static_cast<uint64_t>(rows) << 16 | 8ull << 32 | 1ull << 46;
}

template <bool waits>
__device__ void multiply(const void *in, float *out) {
    __shared__ alignas(128) uint8_t tiles[kBytes];
    __shared__ alignas(8) uint64_t barriers[2];
    __shared__ uint32_t column;
    const uint32_t loaded = shared(&barriers[0]), computed = shared(&barriers[1]), a = shared(tiles);
    if (threadIdx.x < 32) {
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(shared(&column)), "n"(kColumns));
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
    }
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;\nmbarrier.init.shared.b64 [%1], 1;\nfence.mbarrier_init.release.cluster;"
                     ::"r"(loaded), "r"(computed) : "memory");
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(loaded), "n"(kBytes) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     ::"r"(a), "l"(in), "n"(kBytes), "r"(loaded) : "memory");
        if (waits) {
            wait(loaded);
        }
        constexpr uint32_t instruction = 1 << 4 | kColumns / 8 << 17 | kRowsA / 16 << 24;
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n}"
                     ::"r"(column), "l"(descriptor(a, kRowsA)), "l"(descriptor(a + kRowsA * 32, kRowsB)), "r"(instruction));
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(computed) : "memory");
    }
    wait(computed);
    wait(loaded);
    asm volatile("tcgen05.fence::after_thread_sync;");
    uint32_t value;
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];\ntcgen05.wait::ld.sync.aligned;" : "=r"(value) : "r"(column));
    out[threadIdx.x] = __uint_as_float(value);
    __syncthreads();
    if (threadIdx.x < 32) {
        asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(column), "n"(kColumns));
    }
}

} // namespace

extern "C" __global__ void waited(const void *in, float *out) { multiply<true>(in, out); }
extern "C" __global__ void early(const void *in, float *out) { multiply<false>(in, out); }
