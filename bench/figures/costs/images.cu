// Images: filters along columns and rows, channels, counters of bytes, a turn by 90 degrees.
#include "layout.cuh"

// A filter of 17 taps along columns; the tile is kept by columns.
extern "C" __global__ void columns17(float *out, const float *in, const float *taps, int width) {
    constexpr int kPitch = pitch(80);
    __shared__ float tile[16 * kPitch];
    int x = threadIdx.x, y = threadIdx.y, left = blockIdx.x * 16 + x, top = blockIdx.y * 64;
    for (int i = y; i < 80; i += 8) tile[x * kPitch + i] = in[(top + i) * width + left];
    __syncthreads();
    for (int i = y; i < 64; i += 8) {
        float sum = 0;
#pragma unroll
        for (int k = 0; k < 17; ++k) sum += taps[k] * tile[x * kPitch + i + k];
        out[(top + i) * width + left] = sum;
    }
}

// A mean of 9 pixels along rows, by a running sum; a thread per row of the tile.
extern "C" __global__ void means(float *out, const float *in, int width) {
    constexpr int kPitch = pitch(64);
    __shared__ float tile[64 * kPitch];
    int t = threadIdx.x, left = blockIdx.x * 56, top = blockIdx.y * 64;
    for (int i = t; i < 4096; i += 64) tile[i / 64 * kPitch + i % 64] = in[(top + i / 64) * width + left + i % 64];
    __syncthreads();
    float *row = tile + t * kPitch, sum = 0, old[9];
#pragma unroll
    for (int i = 0; i < 64; ++i) {
        float next = row[i];
        sum += next - (i >= 9 ? old[i % 9] : 0);
        old[i % 9] = next;
        if (i >= 8) row[i - 8] = sum / 9;
    }
    __syncthreads();
    for (int i = t; i < 64 * 56; i += 64) out[(top + i / 56) * width + left + i % 56] = tile[i / 56 * kPitch + i % 56];
}

// A 3x3 filter of 32 channels, each with its own taps; a lane per channel, whose tile is 10x10.
extern "C" __global__ void depthwise(float *out, const float *in, const float *taps, int pixels) {
    constexpr int kPitch = pitch(100);
    __shared__ float tile[32 * kPitch];
    int lane = threadIdx.x, y = threadIdx.y, base = blockIdx.x * pixels;
    for (int c = y; c < 32; c += 8)
        for (int i = lane; i < 100; i += 32) tile[c * kPitch + i] = in[base + c * 100 + i];
    __syncthreads();
    float w[9];
    for (int k = 0; k < 9; ++k) w[k] = taps[k * 32 + lane];
    for (int x = 0; x < 8; ++x) {
        float sum = 0;
        for (int k = 0; k < 9; ++k) sum += w[k] * tile[lane * kPitch + (y + k / 3) * 10 + x + k % 3];
        out[(blockIdx.x * 64 + y * 8 + x) * 32 + lane] = sum;
    }
}

// Four channels that lie next to each other become four planes, after a matrix of colours.
extern "C" __global__ void planes(float *out, const float *in, const float *matrix, int pixels) {
    __shared__ float held[1024 + 32];
    int t = threadIdx.x, base = blockIdx.x * 1024;
    for (int i = t; i < 1024; i += 256) held[skewed(i)] = in[base + i];
    __syncthreads();
    for (int to = 0; to < 4; ++to) {
        float sum = 0;
        for (int from = 0; from < 4; ++from) sum += matrix[to * 4 + from] * held[skewed(t * 4 + from)];
        out[to * pixels + blockIdx.x * 256 + t] = sum;
    }
}

// Counts of 64 grey levels, in bytes of each thread's own.
extern "C" __global__ void levels(int *out, const int *in, int each) {
    __shared__ unsigned char counts[64 * 128];
    int t = threadIdx.x, mine = t % 32 * 4 + t / 32; // a bank of its own for each lane
    for (int i = t; i < 2048; i += 128) reinterpret_cast<int *>(counts)[i] = 0;
    __syncthreads();
    for (int i = 0; i < each; ++i) {
        unsigned four = in[(blockIdx.x * each + i) * 128 + t];
        for (int k = 0; k < 4; ++k) {
            int level = four >> (8 * k + 2) & 63;
            ++counts[kFixed ? level * 128 + mine : t * 64 + level];
        }
    }
    __syncthreads();
    if (t >= 64) return;
    int sum = 0;
    for (int i = 0; i < 128; ++i) sum += counts[kFixed ? t * 128 + (i + t * 4) % 128 : (i + t) % 128 * 64 + t];
    out[blockIdx.x * 64 + t] = sum;
}

// A turn by 90 degrees of pixels of 4 bytes.
extern "C" __global__ void turn(uchar4 *out, const uchar4 *in, int n) {
    __shared__ uchar4 tile[16][pitch(16)];
    int x = threadIdx.x, y = threadIdx.y;
    tile[y][x] = in[(blockIdx.y * 16 + y) * n + blockIdx.x * 16 + x];
    __syncthreads();
    out[(n - 1 - blockIdx.x * 16 - y) * n + blockIdx.y * 16 + x] = tile[x][y];
}
