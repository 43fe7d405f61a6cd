// Pairs whose addresses depend on data: chains of loads, an automaton, histograms with and without atomics.
#pragma once

#include "kit.cuh"

namespace pairs {

// Every lane follows the same chain in a table of its own: each load waits for the one before.
template <bool Fixed> __global__ void chase(int *out, const int *next, int steps) {
    constexpr int kPitch = 32 + Fixed;
    __shared__ int table[32 * kPitch];
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) table[i / 32 * kPitch + i % 32] = next[i % 32];
    __syncthreads();
    const int *own = &table[threadIdx.x % 32 * kPitch];
    int at = (blockIdx.x + threadIdx.x / 32) % 32;
#pragma unroll 1
    for (int i = 0; i < steps; ++i) at = own[at];
    out[blockIdx.x * blockDim.x + threadIdx.x] = at;
}

inline void measure_chase(Kit &kit, const char *name, unsigned blocks, unsigned threads, int steps) {
    if (!kit.wants(name)) return;
    std::vector<int> next = kit.permutation(32);
    Reference reference{std::vector<double>(blocks * threads), 0};
    for (unsigned i = 0; i < blocks * threads; ++i) {
        int at = (i / threads + i % threads / 32) % 32;
        for (int step = 0; step < steps; ++step) at = next[at];
        reference.values[i] = at;
    }
    kit.pair(name, chase<false>, chase<true>, {blocks, threads}, reference, kit.device(next), steps);
}

// An automaton of 64 states per lane. A table by lane has random conflicts, a table by state has none.
template <bool Fixed> __global__ void automaton(int *out, const int *next, const int *symbols, int steps) {
    __shared__ int table[64 * 32];
    int t = threadIdx.x, lane = t % 32;
    for (int i = t; i < 64 * 32; i += 64) table[Fixed ? i : i % 32 * 64 + i / 32] = next[i / 32];
    __syncthreads();
    int state = t;
#pragma unroll 1
    for (int i = 0; i < steps; ++i) {
        int seen = table[Fixed ? state * 32 + lane : lane * 64 + state];
        state = (seen + symbols[(blockIdx.x * steps + i) * 64 + t]) % 64;
    }
    out[blockIdx.x * 64 + t] = state;
}

inline void measure_automaton(Kit &kit) {
    if (!kit.wants("automaton")) return;
    constexpr int kBlocks = 40, kSteps = 100;
    std::vector<int> next = kit.permutation(64), symbols = kit.integers(kBlocks * kSteps * 64, 64);
    Reference reference{std::vector<double>(kBlocks * 64), 0};
    for (int i = 0; i < kBlocks * 64; ++i) {
        int state = i % 64;
        for (int step = 0; step < kSteps; ++step)
            state = (next[state] + symbols[(i / 64 * kSteps + step) * 64 + i % 64]) % 64;
        reference.values[i] = state;
    }
    kit.pair("automaton", automaton<false>, automaton<true>, {kBlocks, 64}, reference, kit.device(next),
             kit.device(symbols), kSteps);
}

// A histogram of 64 bins per thread, without atomics: by thread, then bin; or by bin, then thread.
template <bool Fixed> __global__ void count_private(int *out, const int *in, int each) {
    __shared__ int bins[64 * 64];
    int t = threadIdx.x;
    for (int i = t; i < 64 * 64; i += 64) bins[i] = 0;
    __syncthreads();
    for (int i = 0; i < each; ++i) {
        int bin = in[(blockIdx.x * each + i) * 64 + t];
        ++bins[Fixed ? bin * 64 + t : t * 64 + bin];
    }
    __syncthreads();
    int sum = 0; // in an order without conflicts in either layout
    for (int i = 0; i < 64; ++i) {
        int thread = (t + i) % 64;
        sum += bins[Fixed ? t * 64 + thread : thread * 64 + t];
    }
    out[blockIdx.x * 64 + t] = sum;
}

inline void measure_count_private(Kit &kit) {
    if (!kit.wants("count_private")) return;
    constexpr int kBlocks = 32, kEach = 128;
    std::vector<int> in = kit.integers(kBlocks * kEach * 64, 64);
    Reference reference{std::vector<double>(kBlocks * 64), 0};
    for (size_t i = 0; i < in.size(); ++i) ++reference.values[i / (kEach * 64) * 64 + in[i]];
    kit.pair("count_private", count_private<false>, count_private<true>, {kBlocks, 64}, reference, kit.device(in),
             kEach);
}

// A histogram with one copy per lane, of which most lanes hit the same bin: with a pitch of 64, in the same bank.
template <bool Fixed> __global__ void count_copies(int *out, const int *in, const int *weights, int each) {
    constexpr int kPitch = 64 + Fixed;
    __shared__ int bins[32 * kPitch];
    int t = threadIdx.x, lane = t % 32;
    for (int i = t; i < 32 * kPitch; i += 256) bins[i] = 0;
    __syncthreads();
    for (int i = 0; i < each; ++i) {
        int from = (blockIdx.x * each + i) * 256 + t;
        atomicAdd(&bins[lane * kPitch + (in[from] < 48 ? 7 : in[from])], weights[from]);
    }
    __syncthreads();
    if (t >= 64) return;
    int sum = 0;
    for (int copy = 0; copy < 32; ++copy) sum += bins[copy * kPitch + t];
    out[blockIdx.x * 64 + t] = sum;
}

inline void measure_count_copies(Kit &kit) {
    if (!kit.wants("count_copies")) return;
    constexpr int kBlocks = 132, kEach = 32;
    std::vector<int> in = kit.integers(kBlocks * kEach * 256, 64), weights = kit.integers(in.size(), 100);
    Reference reference{std::vector<double>(kBlocks * 64), 0};
    for (size_t i = 0; i < in.size(); ++i)
        reference.values[i / (kEach * 256) * 64 + (in[i] < 48 ? 7 : in[i])] += weights[i];
    kit.pair("count_copies", count_copies<false>, count_copies<true>, {kBlocks, 256}, reference, kit.device(in),
             kit.device(weights), kEach);
}

// Lanes add to rows of their own, all in one column: 32 addresses in one bank.
template <bool Fixed> __global__ void add_columns(int *out, const int *in, int each) {
    constexpr int kPitch = 32 + Fixed;
    __shared__ int sums[32 * kPitch];
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    for (int i = t; i < 32 * kPitch; i += 128) sums[i] = 0;
    __syncthreads();
    for (int i = 0; i < each; ++i)
        atomicAdd(&sums[lane * kPitch + (i + warp) % 32], in[(blockIdx.x * each + i) * 128 + t]);
    __syncthreads();
    for (int i = t; i < 1024; i += 128) out[blockIdx.x * 1024 + i] = sums[i / 32 * kPitch + i % 32];
}

inline void measure_add_columns(Kit &kit) {
    if (!kit.wants("add_columns")) return;
    constexpr int kBlocks = 24, kEach = 64;
    std::vector<int> in = kit.integers(kBlocks * kEach * 128, 1000);
    Reference reference{std::vector<double>(kBlocks * 1024), 0};
    for (int i = 0; i < int(in.size()); ++i) {
        int block = i / (kEach * 128), step = i / 128 % kEach, t = i % 128;
        reference.values[block * 1024 + t % 32 * 32 + (step + t / 32) % 32] += in[i];
    }
    kit.pair("add_columns", add_columns<false>, add_columns<true>, {kBlocks, 128}, reference, kit.device(in), kEach);
}

} // namespace pairs
