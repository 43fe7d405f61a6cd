// Signals and fields: filters, permutations, stencils, tables.
#include "../costs/layout.cuh"

// A 3D mean of 27 points: a plane of 32 x 32 per step, kept with y fastest; three planes are held.
extern "C" __global__ void means27(float *out, const float *in, int planes) {
    constexpr int kPitch = pitch(32);
    __shared__ float held[3][32 * kPitch];
    int x = threadIdx.x, base = blockIdx.x * planes * 1024;
    for (int z = 0; z < planes; ++z) {
        for (int y = threadIdx.y; y < 32; y += 8) held[z % 3][x * kPitch + y] = in[base + z * 1024 + y * 32 + x];
        __syncthreads();
        if (z >= 2)
            for (int y = threadIdx.y; y < 32; y += 8) {
                float sum = 0;
                for (int p = 0; p < 3; ++p)
                    for (int j = -1; j <= 1; ++j)
                        for (int i = -1; i <= 1; ++i) sum += held[p][((x + i) & 31) * kPitch + ((y + j) & 31)];
                out[base + (z - 1) * 1024 + y * 32 + x] = sum / 27;
            }
        __syncthreads();
    }
}

// A polyphase filter: 32 phases of 16 taps each; a lane per phase, whose samples lie 32 apart in time.
extern "C" __global__ void polyphase(float *out, const float *in, const float *taps) {
    constexpr int kPitch = pitch(96);
    __shared__ float line[32 * kPitch];
    int lane = threadIdx.x, row = threadIdx.y, base = blockIdx.x * 3072;
    for (int i = row * 32 + lane; i < 3072; i += 256) line[i % 32 * kPitch + i / 32] = in[base + i];
    float mine[16];
    for (int k = 0; k < 16; ++k) mine[k] = taps[k * 32 + lane];
    __syncthreads();
    for (int at = row; at < 80; at += 8) {
        float sum = 0;
#pragma unroll
        for (int k = 0; k < 16; ++k) sum += mine[k] * line[lane * kPitch + at + k];
        out[(blockIdx.x * 80 + at) * 32 + lane] = sum;
    }
}

// The order of a transform of 1024 points: indices with their bits reversed, by warps, twice, with a factor.
extern "C" __global__ void reversed(float *out, const float *in) {
    __shared__ float held[1024];
    auto place = [](int i) { return kFixed ? i ^ (i >> 5 & 31) : i; };
    int t = threadIdx.x, base = blockIdx.x * 1024;
    for (int i = t; i < 1024; i += 256) held[place(i)] = in[base + i];
    __syncthreads();
    for (int i = t; i < 1024; i += 256) {
        int from = __brev(i) >> 22;
        out[base + i] = held[place(from)] * (1 + from * 0.25f);
    }
}

// Substitution by a table of 256 words, eight rounds; fixed: each lane has a copy in its own bank.
extern "C" __global__ void substituted(unsigned *out, const unsigned *in, const unsigned *table) {
    __shared__ unsigned words[kFixed ? 256 * 32 : 256];
    int t = threadIdx.x, lane = t % 32;
    if (kFixed)
        for (int i = t; i < 256 * 32; i += 256) words[i] = table[i / 32];
    else
        words[t] = table[t];
    __syncthreads();
    for (int j = 0; j < 8; ++j) {
        unsigned value = in[(blockIdx.x * 8 + j) * 256 + t];
        for (int round = 0; round < 8; ++round) {
            unsigned low = value & 255;
            value = __funnelshift_r(value, value, 8) ^ words[kFixed ? low * 32 + lane : low];
        }
        out[(blockIdx.x * 8 + j) * 256 + t] = value;
    }
}

// Votes for lines: 64 angles of 64 distances each, counted by atomics; lanes are angles. Fixed: distances are rows.
extern "C" __global__ void votes(int *out, const int *points, int each) {
    __shared__ int counts[4096];
    auto place = [](int angle, int distance) { return kFixed ? distance * 64 + angle : angle * 64 + distance; };
    int t = threadIdx.x, angle = t % 64;
    for (int i = t; i < 4096; i += 128) counts[i] = 0;
    __syncthreads();
    for (int i = t / 64; i < each; i += 2) {
        int point = points[blockIdx.x * each + i];
        int distance = ((point & 31) * (32 - abs(angle - 32)) + (point >> 5 & 31) * min(angle, 64 - angle)) >> 5;
        atomicAdd(&counts[place(angle, distance & 63)], 1);
    }
    __syncthreads();
    for (int distance = t / 64; distance < 64; distance += 2)
        out[blockIdx.x * 4096 + angle * 64 + distance] = counts[place(angle, distance)];
}

// A transport equation in double precision: differences along columns of a tile of 32 x 32, twelve steps.
extern "C" __global__ void transported(double *out, const double *in) {
    constexpr int kPitch = pitch(32);
    __shared__ double tile[32 * kPitch];
    int x = threadIdx.x, base = blockIdx.x * 1024;
    for (int y = threadIdx.y; y < 32; y += 4) tile[x * kPitch + y] = in[base + y * 32 + x];
    __syncthreads();
    for (int step = 0; step < 12; ++step) {
        double next[8];
        for (int k = 0; k < 8; ++k) {
            int y = threadIdx.y + 4 * k;
            next[k] = 0.75 * tile[x * kPitch + y] + 0.25 * tile[x * kPitch + ((y + 31) & 31)];
        }
        __syncthreads();
        for (int k = 0; k < 8; ++k) tile[x * kPitch + threadIdx.y + 4 * k] = next[k];
        __syncthreads();
    }
    for (int y = threadIdx.y; y < 32; y += 4) out[base + y * 32 + x] = tile[x * kPitch + y];
}

// Pixels by the curve of Morton: a tile of 32 x 32 that is read in the order of the curve, which skips banks.
extern "C" __global__ void curve(float *out, const float *in) {
    constexpr int kPitch = pitch(32, 8);
    __shared__ float tile[32 * kPitch];
    int t = threadIdx.x, base = blockIdx.x * 1024;
    for (int i = t; i < 1024; i += 128) tile[i / 32 * kPitch + i % 32] = in[base + i];
    __syncthreads();
    for (int i = t; i < 1024; i += 128) {
        int x = 0, y = 0;
        for (int bit = 0; bit < 5; ++bit) x |= (i >> 2 * bit & 1) << bit, y |= (i >> (2 * bit + 1) & 1) << bit;
        out[base + i] = tile[y * kPitch + x];
    }
}
