// Kernels whose degrees in every launch follow from the code: see tests/emulate/test_degrees.py.

#define KERNEL(name) extern "C" __global__ void name(float* out, const int* in, int n)
__shared__ float s[1024], rows[32][32], padded[32][33];
const int mask = 1023;

KERNEL(columns) {
    rows[threadIdx.y][threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = rows[threadIdx.x][threadIdx.y];
}

KERNEL(columns_padded) {
    padded[threadIdx.y][threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = padded[threadIdx.x][threadIdx.y];
}

// The distance of lanes is a parameter.
KERNEL(stride) { s[threadIdx.x * n & mask] = 1; }

// What is added is a parameter, the block's index, what memory holds at one address, or a variable of a loop.
KERNEL(moved) { s[threadIdx.x + n * 3 & mask] = 1; }
KERNEL(moved_by_block) { s[threadIdx.x + blockIdx.x * 5 & mask] = 1; }
KERNEL(moved_by_data) { s[threadIdx.x + in[blockIdx.x] & mask] = 1; }
KERNEL(moved_in_loop) {
#pragma unroll 1
    for (int i = 0; i < n; ++i) s[threadIdx.x + i * 32 & mask] = i;
}

// Eight chunks of a row, XORed with a variable of a loop: free in every iteration.
KERNEL(swizzled) {
    float sum = 0;
#pragma unroll 1
    for (int k = 0; k < n; ++k) {
        const int row = threadIdx.x, chunk = (k ^ row) & 7;
        const float4 four = *(float4*)&s[(row & 31) * 32 + chunk * 4];
        sum += four.x + four.y + four.z + four.w;
    }
    out[threadIdx.x] = sum;
}

// A tree whose lanes come to be farther apart, and one whose halves do.
KERNEL(strided_tree) {
#pragma unroll 1
    for (int i = 1; i < blockDim.x; i *= 2) {
        const int at = 2 * i * threadIdx.x;
        if (at < blockDim.x) s[at] += 1;
        __syncthreads();
    }
}
KERNEL(halved_tree) {
#pragma unroll 1
    for (int i = blockDim.x / 2; i > 0; i /= 2) {
        if (threadIdx.x < i) s[threadIdx.x] += s[threadIdx.x + i];
        __syncthreads();
    }
}

// Who takes part is data: any lanes of a free store are free, if a bank serves one at a time.
KERNEL(some) { if (in[threadIdx.x]) s[threadIdx.x] = 1; }
KERNEL(some_wide) { if (in[threadIdx.x]) ((float4*)s)[threadIdx.x & 255] = make_float4(1, 2, 3, 4); }

// Copies by cp.async, past L1 and through it, of lanes that data choose; the second reads every other chunk.
#define COPIED(how, width, from)                                                                                       \
    unsigned to = (unsigned)__cvta_generic_to_shared(s) + (threadIdx.x & 255) * width;                                 \
    if (in[threadIdx.x])                                                                                               \
        asm volatile("cp.async." how ".shared.global [%0], [%1], %2;" ::"r"(to), "l"(in + (from)), "n"(width));        \
    asm volatile("cp.async.wait_all;")
KERNEL(some_copy) { COPIED("cg", 16, threadIdx.x * 4); }
KERNEL(some_copy_every_other) { COPIED("cg", 16, threadIdx.x * 8); }
KERNEL(some_copy_through) { COPIED("ca", 4, threadIdx.x); }

// No block of 128 threads in a row has such threads.
KERNEL(nobody) { if (threadIdx.y == 1) s[threadIdx.x] = n; }

KERNEL(by_data) { s[in[threadIdx.x] & mask] = 1; }

// Lanes that have gone round a loop as often as the memory at one address said, and others that have not, meet: what
// was the same for all that were together is not.
KERNEL(apart) {
    int i = 3;
    if (in[threadIdx.x] > 0)
#pragma unroll 1
        for (i = 0; in[i * 64] > n; ++i);
    __syncwarp();
    s[threadIdx.x + i & mask] = 1;
}

// Each lane leaves the loop when it likes.
KERNEL(left) {
    int i = 0;
#pragma unroll 1
    while (in[threadIdx.x * 64 + i] > 0) ++i;
    s[threadIdx.x + i & mask] = 1;
}

// Registers that are written and read under one predicate, whatever they held before.
KERNEL(under) {
    int at = in[threadIdx.x];
    if (at & 1) {
        at = threadIdx.x / 8 * n + threadIdx.x % 8;
        s[at & mask] = at;
    }
}

KERNEL(counted) { atomicMax((int*)&s[threadIdx.x / 2 & mask], n); }

extern "C" __global__ void __launch_bounds__(64) bounded(float* out) {
    rows[threadIdx.x & 31][threadIdx.x / 32] = 1;
    __syncthreads();
    out[threadIdx.x] = rows[0][threadIdx.x & 31];
}
