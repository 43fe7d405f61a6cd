// Sorting: comparisons over distances of powers of two, counters of a thread, items of a thread.
#include "layout.cuh"

// 1,024 keys per block, sorted by compare-exchange over halving distances.
extern "C" __global__ void bitonic(float *out, const float *in) {
    __shared__ float keys[1024 + 32];
    int t = threadIdx.x, base = blockIdx.x * 1024;
    for (int i = t; i < 1024; i += 512) keys[skewed(i)] = in[base + i];
    for (int size = 2; size <= 1024; size *= 2)
        for (int far = size / 2; far > 0; far /= 2) {
            __syncthreads();
            int low = 2 * t - (t & (far - 1));
            float a = keys[skewed(low)], b = keys[skewed(low + far)];
            bool up = (low & size) == 0;
            keys[skewed(low)] = up ? fminf(a, b) : fmaxf(a, b);
            keys[skewed(low + far)] = up ? fmaxf(a, b) : fminf(a, b);
        }
    __syncthreads();
    for (int i = t; i < 1024; i += 512) out[base + i] = keys[skewed(i)];
}

// Every thread counts the 4-bit digits of its keys; then 16 sums over the threads.
extern "C" __global__ void digits(int *out, const int *in, int each) {
    __shared__ int counts[16 * 256];
    int t = threadIdx.x;
    for (int d = 0; d < 16; ++d) counts[kFixed ? d * 256 + t : t * 16 + d] = 0;
    for (int i = 0; i < each; ++i) {
        int digit = in[(blockIdx.x * each + i) * 256 + t] & 15;
        ++counts[kFixed ? digit * 256 + t : t * 16 + digit];
    }
    __syncthreads();
    int digit = t / 16, sum = 0;
    for (int i = t % 16; i < 256; i += 16) sum += counts[kFixed ? digit * 256 + i : i * 16 + digit];
    for (int step = 8; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step, 16);
    if (t % 16 == 0) out[blockIdx.x * 16 + digit] = sum;
}

// Running maxima: 8 consecutive items per thread, loaded and stored in turns by way of shared memory.
extern "C" __global__ void items(float *out, const float *in) {
    __shared__ float staged[2048 + 64];
    __shared__ float most[256];
    int t = threadIdx.x, base = blockIdx.x * 2048;
    for (int i = 0; i < 8; ++i) staged[skewed(i * 256 + t)] = in[base + i * 256 + t];
    __syncthreads();
    float mine[8], top = -INFINITY;
    for (int i = 0; i < 8; ++i) mine[i] = top = fmaxf(top, staged[skewed(t * 8 + i)]);
    most[t] = top;
    for (int step = 1; step < 256; step *= 2) {
        __syncthreads();
        float other = t >= step ? most[t - step] : -INFINITY;
        __syncthreads();
        most[t] = fmaxf(most[t], other);
    }
    __syncthreads();
    float before = t ? most[t - 1] : -INFINITY;
    for (int i = 0; i < 8; ++i) staged[skewed(t * 8 + i)] = fmaxf(before, mine[i]);
    __syncthreads();
    for (int i = 0; i < 8; ++i) out[base + i * 256 + t] = staged[skewed(i * 256 + t)];
}

// The four largest of each thread's 16 values, by insertion into a list in shared memory.
extern "C" __global__ void largest(float *out, const float *in) {
    constexpr int kPitch = pitch(4);
    __shared__ float list[128 * kPitch];
    int t = threadIdx.x;
    float *mine = list + t * kPitch;
    for (int k = 0; k < 4; ++k) mine[k] = -INFINITY;
    for (int i = 0; i < 16; ++i) {
        float value = in[(blockIdx.x * 16 + i) * 128 + t];
#pragma unroll 1
        for (int k = 0; k < 4; ++k) {
            float held = mine[k];
            mine[k] = fmaxf(held, value);
            value = fminf(held, value);
        }
    }
    for (int k = 0; k < 4; ++k) out[(blockIdx.x * 4 + k) * 128 + t] = mine[k];
}
