// Pairs with a row of shared memory per thread: a stencil, softmax, layer norm, dot products of 16-byte loads.
#pragma once

#include "kit.cuh"

namespace pairs {

// Four steps of smoothing along rows of 64; row t is thread t's, so that a warp walks down a column.
template <bool Fixed> __global__ void smooth(float *out, const float *in) {
    constexpr int kPitch = 64 + Fixed;
    __shared__ float rows[2][64 * kPitch];
    int t = threadIdx.x;
    for (int i = t; i < 4096; i += 64)
        rows[0][i / 64 * kPitch + i % 64] = rows[1][i / 64 * kPitch + i % 64] = in[blockIdx.x * 4096 + i];
    __syncthreads();
    for (int step = 0; step < 4; ++step) {
        const float *from = &rows[step % 2][t * kPitch];
        float *to = &rows[1 - step % 2][t * kPitch];
#pragma unroll 1
        for (int x = 1; x < 63; ++x) to[x] = 0.25f * from[x - 1] + 0.5f * from[x] + 0.25f * from[x + 1];
    }
    __syncthreads();
    for (int i = t; i < 4096; i += 64) out[blockIdx.x * 4096 + i] = rows[0][i / 64 * kPitch + i % 64];
}

inline void measure_smooth(Kit &kit) {
    if (!kit.wants("smooth")) return;
    constexpr int kBlocks = 90;
    std::vector<float> in = kit.uniform(kBlocks * 4096);
    Reference reference{std::vector<double>(in.begin(), in.end()), 1e-5};
    for (size_t row = 0; row < in.size(); row += 64)
        for (int step = 0; step < 4; ++step) {
            std::vector<double> was(&reference.values[row], &reference.values[row] + 64);
            for (int x = 1; x < 63; ++x)
                reference.values[row + x] = 0.25 * was[x - 1] + 0.5 * was[x] + 0.25 * was[x + 1];
        }
    kit.pair("smooth", smooth<false>, smooth<true>, {kBlocks, 64}, reference, kit.device(in));
}

// Softmax of 64 rows of 64 per block, one thread per row.
template <bool Fixed> __global__ void softmax(float *out, const float *in) {
    constexpr int kPitch = 64 + Fixed;
    __shared__ float rows[64 * kPitch];
    int t = threadIdx.x;
    for (int i = t; i < 4096; i += 64) rows[i / 64 * kPitch + i % 64] = in[blockIdx.x * 4096 + i];
    __syncthreads();
    float *own = &rows[t * kPitch], most = own[0], sum = 0;
#pragma unroll 1
    for (int i = 1; i < 64; ++i) most = fmaxf(most, own[i]);
#pragma unroll 1
    for (int i = 0; i < 64; ++i) sum += own[i] = expf(own[i] - most);
#pragma unroll 1
    for (int i = 0; i < 64; ++i) own[i] /= sum;
    __syncthreads();
    for (int i = t; i < 4096; i += 64) out[blockIdx.x * 4096 + i] = rows[i / 64 * kPitch + i % 64];
}

inline void measure_softmax(Kit &kit, const char *name, unsigned blocks) {
    if (!kit.wants(name)) return;
    std::vector<float> in = kit.uniform(blocks * 4096);
    Reference reference{std::vector<double>(in.size()), 1e-5};
    for (size_t row = 0; row < in.size(); row += 64) {
        double sum = 0;
        for (int i = 0; i < 64; ++i) sum += std::exp(double(in[row + i]));
        for (int i = 0; i < 64; ++i) reference.values[row + i] = std::exp(double(in[row + i])) / sum;
    }
    kit.pair(name, softmax<false>, softmax<true>, {blocks, 64}, reference, kit.device(in));
}

// Layer norm of 128 rows of 64 per block, one thread per row, 16 bytes at a time.
template <bool Fixed> __global__ void normalize(float *out, const float *in) {
    constexpr int kPitch = Fixed ? 17 : 16;
    __shared__ float4 rows[128 * kPitch];
    int t = threadIdx.x;
    const float4 *from = reinterpret_cast<const float4 *>(in) + blockIdx.x * 2048;
    for (int i = t; i < 2048; i += 128) rows[i / 16 * kPitch + i % 16] = from[i];
    __syncthreads();
    float4 *own = &rows[t * kPitch];
    float sum = 0, squares = 0;
#pragma unroll 1
    for (int i = 0; i < 16; ++i) {
        float4 v = own[i];
        sum += v.x + v.y + v.z + v.w;
        squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    float mean = sum / 64, scale = 1 / sqrtf(squares / 64 - mean * mean + 1e-5f);
#pragma unroll 1
    for (int i = 0; i < 16; ++i) {
        float4 v = own[i];
        own[i] = make_float4((v.x - mean) * scale, (v.y - mean) * scale, (v.z - mean) * scale, (v.w - mean) * scale);
    }
    __syncthreads();
    float4 *to = reinterpret_cast<float4 *>(out) + blockIdx.x * 2048;
    for (int i = t; i < 2048; i += 128) to[i] = rows[i / 16 * kPitch + i % 16];
}

inline void measure_normalize(Kit &kit) {
    if (!kit.wants("normalize")) return;
    constexpr int kBlocks = 16;
    std::vector<float> in = kit.uniform(kBlocks * 8192);
    Reference reference{std::vector<double>(in.size()), 1e-5};
    for (size_t row = 0; row < in.size(); row += 64) {
        double sum = 0, squares = 0;
        for (int i = 0; i < 64; ++i) sum += in[row + i], squares += double(in[row + i]) * in[row + i];
        double mean = sum / 64, scale = 1 / std::sqrt(squares / 64 - mean * mean + 1e-5);
        for (int i = 0; i < 64; ++i) reference.values[row + i] = (in[row + i] - mean) * scale;
    }
    kit.pair("normalize", normalize<false>, normalize<true>, {kBlocks, 128}, reference, kit.device(in));
}

// Each lane of a block's only warp: the dot product of its row with each of eight vectors, 16 bytes at a time.
template <bool Fixed> __global__ void dot_rows(float *out, const float *in, const float *vectors) {
    constexpr int kPitch = Fixed ? 17 : 16;
    __shared__ float4 rows[32 * kPitch];
    int lane = threadIdx.x;
    const float4 *from = reinterpret_cast<const float4 *>(in) + blockIdx.x * 512;
    for (int i = lane; i < 512; i += 32) rows[i / 16 * kPitch + i % 16] = from[i];
    __syncwarp();
    for (int k = 0; k < 8; ++k) {
        const float4 *with = reinterpret_cast<const float4 *>(vectors) + k * 16;
        float sum = 0;
#pragma unroll 2
        for (int i = 0; i < 16; ++i) {
            float4 a = rows[lane * kPitch + i], b = with[i];
            sum += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
        }
        out[(blockIdx.x * 8 + k) * 32 + lane] = sum;
    }
}

inline void measure_dot_rows(Kit &kit) {
    if (!kit.wants("dot_rows")) return;
    constexpr int kBlocks = 132;
    std::vector<float> in = kit.uniform(kBlocks * 2048), vectors = kit.uniform(8 * 64);
    Reference reference{std::vector<double>(kBlocks * 256), 1e-5};
    for (int i = 0; i < kBlocks * 256; ++i)
        for (int x = 0; x < 64; ++x)
            reference.values[i] += double(in[(i / 256 * 32 + i % 32) * 64 + x]) * vectors[i / 32 % 8 * 64 + x];
    kit.pair("dot_rows", dot_rows<false>, dot_rows<true>, {kBlocks, 32}, reference, kit.device(in),
             kit.device(vectors));
}

} // namespace pairs
