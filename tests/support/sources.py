"""CUDA sources that several tests compile."""

from __future__ import annotations

NAMED = """
namespace ns {
template <int N, typename T, bool B> __global__ void fn(const T* x, T* y, unsigned n) { y[0] = x[n] * N; }
template __global__ void fn<32, float, true>(const float*, float*, unsigned);
template __global__ void fn<64, double, false>(const double*, double*, unsigned);
}
namespace { __global__ void hidden(int* p) { *p = 1; } }
void use(int* p) { hidden<<<1, 1>>>(p); }
__device__ __noinline__ int helper(int x) { return x * x + clock(); }
extern "C" __global__ void plain(float4* a, double d, bool b, long long l) { a[0].x = d + b + l + helper(l); }
struct Pair { float* p; int n; };
__global__ void structure(Pair s) { s.p[s.n] = 1; }
__global__ void none() {}
"""

TURN_AND_BEYOND = """
extern "C" __global__ void turn(const float *x, float *y, int n) {
    __shared__ float tile[32][32];
    tile[threadIdx.x][threadIdx.y] = x[threadIdx.y * n + threadIdx.x];
    __syncthreads();
    y[threadIdx.y * n + threadIdx.x] = tile[threadIdx.y][threadIdx.x];
}
extern __shared__ float dynamic[];
extern "C" __global__ void beyond(float *y) {
    dynamic[threadIdx.x * 4] = 1.0f;
    __syncthreads();
    y[threadIdx.x] = dynamic[threadIdx.x];
}
"""

PARTICLES = """
#include <cuda_fp16.h>
struct Box { float low[3]; float high[3]; };
namespace sim {
template <int N> __global__ void __launch_bounds__(128) step(const float4* __restrict__ from, float4* to, Box box,
                                                             __half scale, unsigned char flags, size_t count) {
    __shared__ float4 tile[N];
    tile[threadIdx.x] = from[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    float4 p = tile[N - 1 - threadIdx.x];
    if (p.x > box.low[0] && flags) p.x *= __half2float(scale) * count;
    to[blockIdx.x * blockDim.x + threadIdx.x] = p;
}
template __global__ void step<128>(const float4*, float4*, Box, __half, unsigned char, size_t);
}
"""
VOLUME = """
extern __shared__ int planes[];
extern "C" __global__ void volume(const unsigned short* voxels, int* counts, int width, int height, bool on) {
    int at = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    planes[at] = voxels[at + blockIdx.y * width];
    __syncthreads();
    if (on) atomicAdd(&counts[at], planes[at ^ 1]);
}
"""
LAUNCHABLE = {
    "flat.cu": "__global__ void flat(float* a, float* b, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x;"
    " __shared__ float s[256]; s[threadIdx.x] = a[i]; __syncthreads(); if (i < n) b[i] = s[255 - threadIdx.x]; }",
    "particles.cu": PARTICLES,
    "volume.cu": VOLUME,
    "turn.cu": TURN_AND_BEYOND[: TURN_AND_BEYOND.index("extern __shared__")],
    "nothing.cu": "__global__ void nothing() { __shared__ int s[64]; s[threadIdx.x] = 1; }",
}

SHIFT = """
__device__ float table[64];
extern "C" __global__ void shift(const float* x, float* y, const int* at, int n, int by) {
    __shared__ float s[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] + table[threadIdx.x] : 0.0f;
    __syncthreads();
    if (i < n) y[i + by] = s[63 - threadIdx.x];
    if (i < n) atomicAdd(&y[at[i]], 1.0f);
}
"""
