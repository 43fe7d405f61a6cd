// Kernels whose results tests/emulate/test_execution.py computes in NumPy.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// One product of a warp, on fragments as they lie in memory: word r of lane l at [32 r + l].
#define PRODUCT(name, ptx, counts_a, counts_b, type, sign)                                                            \
    extern "C" __global__ void name(uint32_t *out, const uint32_t *in) {                                              \
        const int lane = threadIdx.x;                                                                                  \
        uint32_t a[4] = {}, b[2] = {}, d[4];                                                                           \
        for (int r = 0; r < counts_a; ++r) a[r] = in[32 * r + lane];                                                   \
        for (int r = 0; r < counts_b; ++r) b[r] = in[32 * (counts_a + r) + lane];                                      \
        asm(ptx : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                                       \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(0));                               \
        for (int r = 0; r < 4; ++r) out[32 * r + lane] = d[r];                                                         \
    }
#define A4B2 " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"

PRODUCT(halves, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" A4B2, 4, 2, float, 0)
PRODUCT(brains, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32" A4B2, 4, 2, float, 0)
PRODUCT(bytes, "mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32" A4B2, 4, 2, int, 1)

// Everything that can be added up without caring who comes first, and a place for each thread.
extern "C" __global__ void counted(int *out, const int *in, int n) {
    __shared__ int bins[16];
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x < 16) bins[threadIdx.x] = 0;
    __syncthreads();
    if (thread < n) atomicAdd(&bins[in[thread] & 15], 1);
    if (thread < n) atomicMax(&out[16], in[thread]);
    if (thread < n) atomicXor(&out[17], in[thread]);
    __syncthreads();
    if (threadIdx.x < 16) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
    if (thread < n) out[32 + atomicAdd(&out[18], 1)] = thread;
}

extern "C" __global__ void summed(float *out, const float *in, int n) {
    __shared__ float total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    if (threadIdx.x < n) atomicAdd(&total, in[threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(out, total);
}

// What is marked: one output that an atomic returned, one through a comparison with it, one through shared memory, one not.
extern "C" __global__ void marked(float *out, const float *in, int n) {
    __shared__ float kept[32];
    __shared__ unsigned slots[32];
    const float x = in[threadIdx.x];
    slots[threadIdx.x] = __float_as_uint(x * 5);
    __syncthreads();
    const float y = __uint_as_float(atomicExch(&slots[31 - threadIdx.x], n));
    kept[threadIdx.x] = y;
    __syncthreads();
    out[threadIdx.x] = y;
    out[32 + threadIdx.x] = x * 3;
    out[64 + threadIdx.x] = kept[31 - threadIdx.x];
    float z = x;
    if (y > n) for (int i = 0; i < n; ++i) z = z * x + in[i];
    out[96 + threadIdx.x] = z;
}

// A mark crosses global memory, and launches.
extern "C" __global__ void passed_on(float *out, const float *in, int n) { out[threadIdx.x] = in[threadIdx.x] + n; }

extern "C" __global__ void timed(unsigned *out, const unsigned *in, int n) {
    out[threadIdx.x] = clock();
    out[32 + threadIdx.x] = in[threadIdx.x];
}

extern "C" __global__ void unwritten(int *out, const int *in, int n) {
    __shared__ int kept[64];
    kept[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = kept[threadIdx.x + n];
}

extern "C" __global__ void beyond(int *out, const int *in, int n) { out[threadIdx.x + n] = in[threadIdx.x]; }

// Blocks that wait for each other: the last one adds up what all have stored.
extern "C" __global__ void last_block(int *out, const int *in, int n) {
    __shared__ bool last;
    out[1 + blockIdx.x] = in[blockIdx.x] * 2;
    __threadfence();
    if (threadIdx.x == 0) last = atomicAdd(&out[0], 1) == gridDim.x - 1;
    __syncthreads();
    if (last && threadIdx.x == 0) {
        int sum = 0;
        for (int i = 0; i < gridDim.x; ++i) sum += *(volatile int *)&out[1 + i];
        out[1 + gridDim.x] = sum;
    }
}
extern "C" __global__ void turns(int *out, const int *in, int n) {
    if (threadIdx.x == 0) {
        while (atomicAdd(&out[0], 0) != blockIdx.x) {}
        out[1] = out[1] * 3 + in[blockIdx.x];
        __threadfence();
        atomicAdd(&out[0], 1);
    }
}

// An atomic addition of 64 bits through generic pointers: for shared memory the compiler adds a loop.
extern "C" __global__ void anywhere(unsigned long long *out, const unsigned long long *in, int n) {
    __shared__ unsigned long long tile[32];
    unsigned t = threadIdx.x;
    tile[t] = in[t];
    __syncthreads();
    unsigned long long found = atomicAdd(t < n ? out + 64 + t : tile + t % 24, t + 1);
    __syncthreads();
    out[t] = found;
    out[32 + t] = tile[t];
}
