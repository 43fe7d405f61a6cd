// Layers of networks: norms, gates, experts, one query of attention, embeddings in half precision.
#include "layout.cuh"

// Norms of 32 rows of 128 per block: moments by a lane per row, then scaled by columns.
extern "C" __global__ void norms(float *out, const float *in, const float *gain) {
    constexpr int kPitch = pitch(128);
    __shared__ float tile[32 * kPitch], sums[4][32], squares[4][32];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, base = blockIdx.x * 4096;
    for (int r = 0; r < 32; ++r) tile[r * kPitch + t] = in[base + r * 128 + t];
    __syncthreads();
    float sum = 0, square = 0;
#pragma unroll 8
    for (int i = 0; i < 32; ++i) {
        float v = tile[lane * kPitch + warp * 32 + i];
        sum += v;
        square += v * v;
    }
    sums[warp][lane] = sum;
    squares[warp][lane] = square;
    __syncthreads();
    float scale = gain[t];
    for (int r = 0; r < 32; ++r) {
        float mean = (sums[0][r] + sums[1][r] + sums[2][r] + sums[3][r]) / 128;
        float moment = (squares[0][r] + squares[1][r] + squares[2][r] + squares[3][r]) / 128;
        out[base + r * 128 + t] = (tile[r * kPitch + t] - mean) * rsqrtf(moment - mean * mean + 1e-5f) * scale;
    }
}

// The gates of a recurrent layer: four per unit, next to each other in the input.
extern "C" __global__ void gates(float *out, const float *in, float *state) {
    __shared__ float held[512 + 16];
    int t = threadIdx.x, unit = blockIdx.x * 128 + t;
    for (int i = t; i < 512; i += 128) held[skewed(i)] = in[blockIdx.x * 512 + i];
    __syncthreads();
    float g[4];
    for (int k = 0; k < 4; ++k) g[k] = 1 / (1 + __expf(-held[skewed(t * 4 + k)]));
    float next = g[1] * state[unit] + g[0] * (2 * g[2] - 1);
    state[unit] = next;
    out[unit] = g[3] * tanhf(next);
}

// The best two of 16 experts for each token, and the weights of both.
extern "C" __global__ void experts(float *out, const float *in) {
    constexpr int kPitch = pitch(16);
    __shared__ float held[128 * kPitch];
    int t = threadIdx.x, base = blockIdx.x * 2048, best = 0;
    for (int i = t; i < 2048; i += 128) held[i / 16 * kPitch + i % 16] = in[base + i];
    __syncthreads();
    float *mine = held + t * kPitch, first = -INFINITY, second = -INFINITY, sum = 0;
    for (int i = 0; i < 16; ++i)
        if (mine[i] > first) {
            first = mine[i];
            best = i;
        }
#pragma unroll 1
    for (int i = 0; i < 16; ++i) {
        if (i != best) second = fmaxf(second, mine[i]);
        sum += __expf(mine[i] - first);
    }
    out[(blockIdx.x * 128 + t) * 2] = 1 / sum;
    out[(blockIdx.x * 128 + t) * 2 + 1] = __expf(second - first) / sum;
}

// One query of attention over so many keys of 64 halves: a warp per head, 32 keys at a time.
extern "C" __global__ void decode(float *out, const half2 *query, const half2 *keys, const half2 *values, int count) {
    constexpr int kPitch = pitch(32);
    __shared__ half2 k[4][32 * kPitch], q[4][32];
    int lane = threadIdx.x, warp = threadIdx.y, head = blockIdx.x * 4 + warp;
    q[warp][lane] = query[head * 32 + lane];
    float most = -INFINITY, sum = 0, x = 0, y = 0;
    for (int from = 0; from < count; from += 32) {
        for (int i = 0; i < 32; ++i) k[warp][i * kPitch + lane] = keys[(head * count + from + i) * 32 + lane];
        __syncwarp();
        float score = 0;
#pragma unroll 8
        for (int i = 0; i < 32; ++i) {
            float2 a = __half22float2(q[warp][i]), b = __half22float2(k[warp][lane * kPitch + i]);
            score += a.x * b.x + a.y * b.y;
        }
        score *= 0.125f;
        float top = score;
        for (int far = 16; far > 0; far /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, far));
        float now = fmaxf(most, top), weight = __expf(score - now), old = __expf(most - now);
        most = now;
        sum *= old;
        x *= old;
        y *= old;
        for (int i = 0; i < 32; ++i) {
            float w = __shfl_sync(0xffffffffu, weight, i);
            float2 v = __half22float2(values[(head * count + from + i) * 32 + lane]);
            sum += w;
            x += w * v.x;
            y += w * v.y;
        }
        __syncwarp();
    }
    out[(head * 32 + lane) * 2] = x / sum;
    out[(head * 32 + lane) * 2 + 1] = y / sum;
}

// Similarities of 64 embeddings of 128 halves with one other, gathered by number.
extern "C" __global__ void similar(float *out, const half2 *table, const int *which, const half2 *one) {
    constexpr int kPitch = pitch(64);
    __shared__ half2 rows[64 * kPitch];
    int t = threadIdx.x;
    for (int r = 0; r < 64; ++r) rows[r * kPitch + t] = table[which[blockIdx.x * 64 + r] * 64 + t];
    __syncthreads();
    float dot = 0, length = 0;
#pragma unroll 4
    for (int i = 0; i < 64; ++i) {
        float2 a = __half22float2(rows[t * kPitch + i]), b = __half22float2(one[i]);
        dot += a.x * b.x + a.y * b.y;
        length += a.x * a.x + a.y * a.y;
    }
    out[blockIdx.x * 64 + t] = dot * rsqrtf(length + 1e-6f);
}
