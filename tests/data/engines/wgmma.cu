#include <cstdint>
extern "C" __global__ void __launch_bounds__(128) product(float *out, int n) {
    __shared__ __align__(1024) char tile[16384];
    float d[4] = {};
    uint64_t a = (uint64_t)((uint32_t)__cvta_generic_to_shared(tile) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll 1
    for (int i = 0; i < n; i++)
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\nwgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
                     "{%0, %1, %2, %3}, %4, %4, p, 1, 1, 0, 0;\n}"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a));
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    out[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
