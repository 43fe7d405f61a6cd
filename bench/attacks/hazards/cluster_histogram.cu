// A histogram whose bins lie in the two blocks of a cluster: atomics in distributed shared memory.
#include "warpgroup.cuh"

constexpr int kThreads = 128, kBins = 64, kEach = 4; // bins per block

__device__ uint32_t rank() {
    uint32_t r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(r));
    return r;
}

extern "C" __global__ void __cluster_dims__(2) kernel(const float *in, float *out) {
    __shared__ int bins[kBins];
    const int t = threadIdx.x;
    for (int pass = 0; pass < 2; ++pass) {
        for (int i = t; i < kBins; i += kThreads) {
            bins[i] = 0;
        }
        ptx::cluster_sync();
        for (int i = 0; i < kEach; ++i) {
            const int bin = __float_as_uint(in[(blockIdx.x * 2 + pass) * kThreads * kEach + i * kThreads + t]) >> 10 & 127;
            uint32_t there;
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;\n"
                         : "=r"(there)
                         : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(&bins[bin % kBins]))), "r"(bin / kBins));
            asm volatile("red.shared::cluster.add.u32 [%0], %1;\n" ::"r"(there), "r"(1) : "memory");
        }
        ptx::cluster_sync();
        for (int i = t; i < kBins; i += kThreads) {
            out[(blockIdx.x * 2 + pass) * kBins + i] = bins[i];
        }
        __syncthreads();
    }
}
