// Kernels in which blocks differ: running one block of each class has to come to the same as running all.
// Compiled and disassembled as warps.cu is.

#include <cstddef>

#define KERNEL(name) extern "C" __global__ void name(float* out, const float* in, int n)

KERNEL(edges) {  // a matrix that the tiles do not divide
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (x < n && y + i < n - 5) tile[threadIdx.y + i][threadIdx.x] = in[(y + i) * n + x];
    __syncthreads();
    int u = blockIdx.y * 32 + threadIdx.x, v = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (u < n - 5 && v + i < n) out[(v + i) * n + u] = tile[threadIdx.x][threadIdx.y + i];
}

KERNEL(linear) {  // the last block is not full, and leaves early
    __shared__ float s[256];
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    s[threadIdx.x * 2 & 255] = in[i];
    out[i] = s[threadIdx.x * 2 & 255];
}

KERNEL(stride) {  // a grid-stride loop: trip counts differ from block to block
    __shared__ float s[256];
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        s[threadIdx.x ^ 1] = in[i];
        out[i] = s[threadIdx.x ^ 1];
    }
}

KERNEL(causal) {  // as many tiles as the block's index says, the last one masked
    __shared__ float s[64 * 4];
    float sum = 0;
    for (int j = 0; j <= blockIdx.x; j++) {
        s[threadIdx.x * 4 % 256] = in[j * 64 + threadIdx.x];
        __syncthreads();
        if (j < blockIdx.x || threadIdx.x % 8 > 2) sum += s[threadIdx.x];
        __syncthreads();
    }
    out[blockIdx.x * 64 + threadIdx.x] = sum;
}

KERNEL(raster) {  // blocks renumbered by divisions, as GEMMs do for the cache's sake
    __shared__ float s[1024];
    int width = 3 * gridDim.y, pid = blockIdx.y * gridDim.x + blockIdx.x;
    int group = pid / width, first = group * 3, rows = min(int(gridDim.x) - first, 3);
    int bm = first + pid % rows, bn = pid % width / rows;
    s[threadIdx.x * 4] = in[bm * 128 * n + threadIdx.x];
    if (bn == 2) s[threadIdx.x * 8] = 1;
    __syncthreads();
    out[bn * 128 + threadIdx.x + bm] = s[threadIdx.x];
}

KERNEL(shifted) {  // the block's index is in the shared address itself
    __shared__ float s[256 + 64];
    s[threadIdx.x * (blockIdx.x % 3 + 1) % 256] = in[threadIdx.x];
    s[threadIdx.x + (blockIdx.x & 32)] = 1;
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = s[threadIdx.x * (1 + blockIdx.y)];
}

KERNEL(copies) {  // rows of 80 bytes: where they lie in the lines of global memory depends on the block
    __shared__ __align__(128) float s[2048];
    unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(s)) + threadIdx.x * 16;
    const float* from = in + (size_t(blockIdx.x) * 15 + threadIdx.x / 5) * 20 + threadIdx.x % 5 * 4;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to + 4096), "l"(from + n));
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}
