// Pairs that move data: transposes of five widths, an exchange inside a warp, a pipeline of copies, several conflicts.
#pragma once

#include "kit.cuh"
#include "ptx.cuh"

namespace pairs {

template <bool Fixed, typename T, int Side> __global__ void transpose(T *out, const T *in, int n) {
    constexpr int kPad = Fixed ? (sizeof(T) < 4 ? 4 / sizeof(T) : 1) : 0;
    __shared__ T tile[Side][Side + kPad];
    int x = blockIdx.x * Side, y = blockIdx.y * Side;
    for (int j = threadIdx.y; j < Side; j += 8)
        for (int i = threadIdx.x; i < Side; i += 32) tile[j][i] = in[(y + j) * n + x + i];
    __syncthreads();
    for (int j = threadIdx.y; j < Side; j += 8)
        for (int i = threadIdx.x; i < Side; i += 32) out[(x + j) * n + y + i] = tile[i][j];
}

template <typename T, int Side> void measure_transpose(Kit &kit, const char *name, int n) {
    if (!kit.wants(name)) return;
    std::vector<int> numbers = kit.integers(size_t(n) * n, 256);
    std::vector<T> in(numbers.begin(), numbers.end());
    Reference reference{std::vector<double>(in.size()), 0};
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) reference.values[size_t(j) * n + i] = double(in[size_t(i) * n + j]);
    unsigned tiles = n / Side;
    kit.pair(name, transpose<false, T, Side>, transpose<true, T, Side>, {{tiles, tiles}, {32, 8}}, reference,
             kit.device(in), n);
}

// One warp exchanges 32x8 values through shared memory, again and again; a lane's values are a row.
template <bool Fixed> __global__ void exchange(float *out, const float *in, int rounds) {
    constexpr int kPitch = 32 + Fixed;
    __shared__ float tile[32 * kPitch];
    int lane = threadIdx.x;
    float held[8];
    for (int i = 0; i < 8; ++i) held[i] = in[(blockIdx.x * 8 + i) * 32 + lane];
    for (int round = 0; round < rounds; ++round) {
        for (int i = 0; i < 8; ++i) tile[lane * kPitch + (i + round) % 8] = held[i];
        __syncwarp();
        for (int i = 0; i < 8; ++i) held[i] = tile[(lane * 5 + i + 1) % 32 * kPitch + (i + 3 + round) % 8] + 1;
        __syncwarp();
    }
    for (int i = 0; i < 8; ++i) out[(blockIdx.x * 8 + i) * 32 + lane] = held[i];
}

inline void measure_exchange(Kit &kit) {
    if (!kit.wants("exchange")) return;
    constexpr int kBlocks = 132, kRounds = 20;
    std::vector<float> in = kit.uniform(kBlocks * 256);
    Reference reference{std::vector<double>(in.begin(), in.end()), 1e-5};
    for (int block = 0; block < kBlocks; ++block) {
        double *held = &reference.values[block * 256];
        for (int round = 0; round < kRounds; ++round) {
            std::vector<double> was(held, held + 256);
            for (int i = 0; i < 8; ++i)
                for (int lane = 0; lane < 32; ++lane)
                    held[i * 32 + lane] = was[(i + 3) % 8 * 32 + (lane * 5 + i + 1) % 32] + 1;
        }
    }
    kit.pair("exchange", exchange<false>, exchange<true>, {kBlocks, 32}, reference, kit.device(in), kRounds);
}

// Each block sums the rows of eight 32x32 tiles; cp.async fills one buffer while the other is summed.
template <bool Fixed> __global__ void sum_rows_async(float *out, const float *in) {
    constexpr int kPitch = Fixed ? 36 : 32, kTiles = 8;
    alignas(16) __shared__ float tile[2][32 * kPitch];
    int row = threadIdx.x / 4, chunk = threadIdx.x % 4, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    auto fill = [&](int number) {
        const float *from = in + (blockIdx.x * kTiles + number) * 1024 + row * 32;
        for (int c = chunk; c < 8; c += 4) {
            float *to = &tile[number % 2][row * kPitch + c * 4];
            ptx::cp_async_16(uint32_t(__cvta_generic_to_shared(to)), from + c * 4);
        }
        ptx::cp_async_commit();
    };
    fill(0);
    for (int number = 0; number < kTiles; ++number) {
        if (number + 1 < kTiles) fill(number + 1);
        if (number + 1 < kTiles) ptx::cp_async_wait<1>();
        else ptx::cp_async_wait<0>();
        __syncthreads();
        float sum = 0;
#pragma unroll 1
        for (int i = 0; i < 8; ++i) sum += tile[number % 2][lane * kPitch + (warp + 4 * i) % 32];
        out[((blockIdx.x * kTiles + number) * 4 + warp) * 32 + lane] = sum;
        __syncthreads();
    }
}

inline void measure_sum_rows_async(Kit &kit, const char *name, unsigned blocks) {
    if (!kit.wants(name)) return;
    std::vector<float> in = kit.uniform(size_t(blocks) * 8192);
    Reference reference{std::vector<double>(size_t(blocks) * 1024), 1e-5};
    for (size_t tile = 0; tile < blocks * 8; ++tile)
        for (int warp = 0; warp < 4; ++warp)
            for (int lane = 0; lane < 32; ++lane)
                for (int i = 0; i < 8; ++i)
                    reference.values[(tile * 4 + warp) * 32 + lane] += in[tile * 1024 + lane * 32 + warp + 4 * i];
    kit.pair(name, sum_rows_async<false>, sum_rows_async<true>, {blocks, 128}, reference, kit.device(in));
}

// Three conflicts in one kernel: a store of 32 ways, a load of doubles of 16 ways per half-warp, and atomics.
template <bool Fixed> __global__ void several(float *out, const float *in) {
    constexpr int kPitch = 32 + Fixed;
    __shared__ float stored[32 * kPitch];
    __shared__ double wide[32 * kPitch];
    __shared__ int counted[32 * kPitch];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const float *from = in + blockIdx.x * 1024;
    for (int i = threadIdx.x; i < 32 * kPitch; i += 128) counted[i] = 0;
    for (int k = warp; k < 32; k += 4) {
        stored[lane * kPitch + k] = from[k * 32 + lane];
        wide[k * kPitch + lane] = from[k * 32 + lane];
    }
    __syncthreads();
    for (int k = warp; k < 32; k += 4) atomicAdd(&counted[lane * kPitch + k], int(100 * from[k * 32 + lane]));
    __syncthreads();
    for (int k = warp; k < 32; k += 4) {
        double sum = stored[k * kPitch + lane] + wide[lane * kPitch + k];
        out[blockIdx.x * 1024 + k * 32 + lane] = float(sum) + counted[k * kPitch + lane];
    }
}

inline void measure_several(Kit &kit) {
    if (!kit.wants("several")) return;
    constexpr int kBlocks = 264;
    std::vector<float> in = kit.uniform(kBlocks * 1024);
    Reference reference{std::vector<double>(in.size()), 1e-5};
    for (int block = 0; block < kBlocks; ++block)
        for (int k = 0; k < 32; ++k)
            for (int lane = 0; lane < 32; ++lane) {
                float turned = in[block * 1024 + lane * 32 + k];
                reference.values[block * 1024 + k * 32 + lane] = 2.0 * turned + int(100 * turned);
            }
    kit.pair("several", several<false>, several<true>, {kBlocks, 128}, reference, kit.device(in));
}

} // namespace pairs
