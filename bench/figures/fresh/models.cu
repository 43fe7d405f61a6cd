// Models: embeddings, normalization, rotations, attention of one query, bytes, clusters of points.
#include "../costs/layout.cuh"

#include <cuda_pipeline.h>

// Rotary positions: pairs of 64 dimensions, a lane per token of a tile of 32 tokens.
extern "C" __global__ void rotated(float *out, const float *in, const float *angles) {
    constexpr int kPitch = pitch(64, 2);
    __shared__ __align__(8) float tile[32 * kPitch];
    int lane = threadIdx.x, warp = threadIdx.y, base = blockIdx.x * 2048;
    for (int i = warp * 32 + lane; i < 2048; i += 128) tile[i / 64 * kPitch + i % 64] = in[base + i];
    __syncthreads();
    for (int d = warp; d < 32; d += 4) {
        float2 *pair = reinterpret_cast<float2 *>(tile + lane * kPitch + 2 * d), old = *pair;
        float sine, cosine;
        __sincosf(angles[d] * (lane + 1), &sine, &cosine);
        *pair = make_float2(old.x * cosine - old.y * sine, old.x * sine + old.y * cosine);
    }
    __syncthreads();
    for (int i = warp * 32 + lane; i < 2048; i += 128) out[base + i] = tile[i / 64 * kPitch + i % 64];
}

// Normalization over 48 channels of pixels whose channels are together; a thread per pixel.
extern "C" __global__ void normalized(float *out, const float *in, const float *weights) {
    constexpr int kPitch = pitch(48);
    __shared__ float tile[128 * kPitch];
    int t = threadIdx.x, base = blockIdx.x * 6144;
    for (int i = t; i < 6144; i += 128) tile[i / 48 * kPitch + i % 48] = in[base + i];
    __syncthreads();
    float sum = 0, squares = 0;
    for (int c = 0; c < 48; ++c) {
        float value = tile[t * kPitch + c];
        sum += value, squares += value * value;
    }
    float mean = sum / 48, scale = rsqrtf(squares / 48 - mean * mean + 1e-5f);
    for (int c = 0; c < 48; ++c) tile[t * kPitch + c] = (tile[t * kPitch + c] - mean) * scale * weights[c];
    __syncthreads();
    for (int i = t; i < 6144; i += 128) out[base + i] = tile[i / 48 * kPitch + i % 48];
}

// Keys of 128 halves, copied by cp.async into two buffers; a lane per key, which reads 16 bytes at a time.
extern "C" __global__ void keys(float *out, const __half *in, const __half *query) {
    constexpr int kPitch = pitch(128, 8);
    __shared__ __align__(16) __half held[2][64 * kPitch];
    __shared__ __align__(16) __half asked[128];
    int t = threadIdx.x;
    if (t < 64) reinterpret_cast<__half2 *>(asked)[t] = reinterpret_cast<const __half2 *>(query)[t];
    auto load = [&](int tile) {
        for (int i = t; i < 1024; i += 64)
            __pipeline_memcpy_async(&held[tile & 1][i / 16 * kPitch + i % 16 * 8],
                                    in + (blockIdx.x * 8 + tile) * 8192 + i * 8, 16);
        __pipeline_commit();
    };
    load(0);
    for (int tile = 0; tile < 8; ++tile) {
        if (tile < 7) load(tile + 1);
        __pipeline_wait_prior(tile < 7);
        __syncthreads();
        float sum = 0;
        for (int d = 0; d < 16; ++d) {
            int4 keys = *reinterpret_cast<int4 *>(&held[tile & 1][t * kPitch + d * 8]);
            int4 wanted = *reinterpret_cast<int4 *>(&asked[d * 8]);
            const __half2 *k = reinterpret_cast<__half2 *>(&keys), *q = reinterpret_cast<__half2 *>(&wanted);
            for (int j = 0; j < 4; ++j) {
                float2 a = __half22float2(k[j]), b = __half22float2(q[j]);
                sum += a.x * b.x + a.y * b.y;
            }
        }
        out[(blockIdx.x * 8 + tile) * 64 + t] = sum;
        __syncthreads();
    }
}

// Bags of embeddings: 16 rows of 32 dimensions for each of 64 samples, of a table of 64 rows in shared memory.
extern "C" __global__ void bags(float *out, const int *rows, const float *table) {
    constexpr int kPitch = pitch(32);
    __shared__ float held[64 * kPitch];
    int t = threadIdx.x;
    for (int i = t; i < 2048; i += 64) held[i / 32 * kPitch + i % 32] = table[i];
    __syncthreads();
    float sum[32] = {};
    for (int k = 0; k < 16; ++k) {
        int row = rows[(blockIdx.x * 16 + k) * 64 + t];
#pragma unroll
        for (int d = 0; d < 32; ++d) sum[d] += held[row * kPitch + d];
    }
    for (int d = 0; d < 32; ++d) out[(blockIdx.x * 32 + d) * 64 + t] = sum[d];
}

// Halves with 64 channels together become 64 planes.
extern "C" __global__ void unzipped(__half *out, const __half *in, int pixels) {
    constexpr int kPitch = pitch(64, 2);
    __shared__ __half tile[64 * kPitch];
    int t = threadIdx.x, base = blockIdx.x * 4096;
    for (int i = t; i < 2048; i += 256)
        *reinterpret_cast<__half2 *>(&tile[i / 32 * kPitch + i % 32 * 2]) = reinterpret_cast<const __half2 *>(in + base)[i];
    __syncthreads();
    for (int i = t; i < 4096; i += 256) out[i / 64 * pixels + blockIdx.x * 64 + i % 64] = tile[i % 64 * kPitch + i / 64];
}

// Weights of 4 bits: a thread per row of 128 weights in 16 words, times inputs that all rows share.
extern "C" __global__ void nibbles(float *out, const unsigned *weights, const float *in) {
    constexpr int kPitch = pitch(16);
    __shared__ unsigned held[128 * kPitch];
    __shared__ float shared_in[128];
    int t = threadIdx.x;
    float sum = 0;
    for (int tile = 0; tile < 4; ++tile) {
        for (int i = t; i < 2048; i += 128)
            held[i / 16 * kPitch + i % 16] = weights[(blockIdx.x * 4 + tile) * 2048 + i];
        shared_in[t] = in[tile * 128 + t];
        __syncthreads();
        for (int w = 0; w < 16; ++w) {
            unsigned eight = held[t * kPitch + w];
            for (int k = 0; k < 8; ++k) sum += (int(eight >> 4 * k & 15) - 8) * shared_in[w * 8 + k];
        }
        __syncthreads();
    }
    out[blockIdx.x * 128 + t] = sum;
}

// Distances of points to 8 centres of 32 dimensions; a point per thread, read again for each centre.
extern "C" __global__ void centres(int *out, const float *in, const float *of) {
    constexpr int kPitch = pitch(32, 4);
    __shared__ __align__(16) float points[128 * kPitch], middle[8 * 32];
    int t = threadIdx.x;
    for (int i = t; i < 128 * 32; i += 128) points[i / 32 * kPitch + i % 32] = in[blockIdx.x * 4096 + i];
    for (int i = t; i < 256; i += 128) middle[i] = of[i];
    __syncthreads();
    float nearest = 1e30f;
    int which = 0;
    for (int c = 0; c < 8; ++c) {
        float distance = 0;
        for (int d = 0; d < 32; ++d) {
            float apart = points[t * kPitch + d] - middle[c * 32 + d];
            distance += apart * apart;
        }
        if (distance < nearest) nearest = distance, which = c;
    }
    out[blockIdx.x * 128 + t] = which;
}
