// cp.async brings in rows of 64 floats, 16 bytes per thread; each thread then reads down a row of its own.

#include <stdint.h>

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void copy16(uint32_t to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

__global__ void async_columns(const float* __restrict__ in, float* __restrict__ out) {
    __shared__ alignas(16) float rows[32 * 64];
    const uint32_t base = shared_address(rows);
    const int t = threadIdx.x; // 128
    for (int i = t; i < 32 * 16; i += 128) {
        const int row = i / 16, piece = i % 16;
        copy16(base + (row * 64 + piece * 4) * sizeof(float), in + blockIdx.x * 2048 + row * 64 + piece * 4);
    }
    asm volatile("cp.async.commit_group;\n cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    const int lane = t % 32, quarter = t / 32;
    float sum = 0.0f;
    for (int c = 0; c < 16; c += 4) {
        const float4 v = *reinterpret_cast<const float4*>(&rows[lane * 64 + quarter * 16 + c]);
        sum += v.x + 2.0f * v.y + 3.0f * v.z + 4.0f * v.w;
    }
    out[blockIdx.x * 128 + t] = sum;
}
