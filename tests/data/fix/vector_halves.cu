// Rearranges 32 x 64 tiles of halves: rows come in 16 bytes at a time, and columns of 16-byte pieces go out.

#include <cuda_fp16.h>
#include <stdint.h>

__global__ void pieces(const __half* __restrict__ in, __half* __restrict__ out) {
    __shared__ alignas(16) __half tile[32 * 64];

    const uint4* source = reinterpret_cast<const uint4*>(in + blockIdx.x * 32 * 64);
    uint4* target = reinterpret_cast<uint4*>(out + blockIdx.x * 32 * 64);
    const int t = threadIdx.x; // 256: one piece each
    reinterpret_cast<uint4*>(tile)[t] = source[t];
    __syncthreads();
    const int row = t % 32, piece = t / 32;
    target[t] = *reinterpret_cast<const uint4*>(tile + row * 64 + piece * 8);
}
