// MUFU's log2, sin, cos and tanh: sums over all operands, and results one by one. operands.py runs it.
//
// PTX's sin and cos multiply their operand by 0.15915494 before; operands.py makes that constant 1.
#include <cstdint>

enum { LG2, SIN, COS, TANH };

template <int F>
__device__ __forceinline__ uint32_t mufu(uint32_t bits) {
    float x = __uint_as_float(bits), y = 0;
    if (F == LG2) asm volatile("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (F == SIN) asm volatile("sin.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (F == COS) asm volatile("cos.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (F == TANH) asm volatile("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return __float_as_uint(y);
}

__device__ uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

// A sum for each 2^20 operands.
template <int F>
__device__ void sums(unsigned long long *out) {
    uint64_t total = 0;
    for (uint32_t i = threadIdx.x; i < 1u << 20; i += blockDim.x) {
        uint32_t bits = blockIdx.x << 20 | i;
        total += mixed(uint64_t(bits) << 32 | mufu<F>(bits));
    }
    atomicAdd(&out[blockIdx.x], total);
}

#define ALL(name, F)                                                                                     \
    extern "C" __global__ void sums_##name(unsigned long long *out) { sums<F>(out); }                    \
    extern "C" __global__ void results_##name(uint32_t *out, uint32_t first, uint32_t step) {            \
        uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;                                              \
        out[i] = mufu<F>(first + step * i);                                                              \
    }
ALL(LG2, LG2) ALL(SIN, SIN) ALL(COS, COS) ALL(TANH, TANH)
