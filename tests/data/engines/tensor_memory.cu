#include <cstdint>
extern "C" __global__ void __launch_bounds__(128) product(float *out, int n) {
    __shared__ __align__(1024) char tile[16384];
    uint64_t a = (uint64_t)((uint32_t)__cvta_generic_to_shared(tile) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
    if (threadIdx.x == 0)
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
                     "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %1, %2, p;\n}" ::"r"(0), "l"(a), "r"(n) : "memory");
    out[threadIdx.x] = 1;
}
