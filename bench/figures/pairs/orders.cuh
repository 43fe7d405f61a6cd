// Pairs with strides of powers of two: reduction, scans, a Fourier transform, cyclic reduction, particles.
#pragma once

#include "kit.cuh"

namespace pairs {

constexpr double kPi = 3.14159265358979323846;

// 256 values per block; the active threads of each step are adjacent, their values are not.
template <bool Fixed> __global__ void reduce(float *out, const float *in) {
    __shared__ float sums[256 + 8];
    int t = threadIdx.x;
    sums[skewed<Fixed>(t)] = in[blockIdx.x * 256 + t];
    for (int stride = 1; stride < 256; stride *= 2) {
        __syncthreads();
        int i = 2 * stride * t;
        if (i < 256) sums[skewed<Fixed>(i)] += sums[skewed<Fixed>(i + stride)];
    }
    if (t == 0) out[blockIdx.x] = sums[0];
}

inline void measure_reduce(Kit &kit) {
    if (!kit.wants("reduce")) return;
    constexpr int kBlocks = 528;
    std::vector<float> in = kit.uniform(kBlocks * 256);
    Reference reference{std::vector<double>(kBlocks), 1e-4};
    for (size_t i = 0; i < in.size(); ++i) reference.values[i / 256] += in[i];
    kit.pair("reduce", reduce<false>, reduce<true>, {kBlocks, 256}, reference, kit.device(in));
}

// Blelloch's exclusive scan of 512 values per block: up a tree and down again.
template <bool Fixed> __global__ void scan(float *out, const float *in) {
    __shared__ float tree[512 + 16];
    int t = threadIdx.x;
    const float *from = in + blockIdx.x * 512;
    for (int i = t; i < 512; i += 256) tree[skewed<Fixed>(i)] = from[i];
    int stride = 1;
    for (int active = 256; active > 0; active /= 2, stride *= 2) {
        __syncthreads();
        int left = stride * (2 * t + 1) - 1;
        if (t < active) tree[skewed<Fixed>(left + stride)] += tree[skewed<Fixed>(left)];
    }
    if (t == 0) tree[skewed<Fixed>(511)] = 0;
    for (int active = 1; active < 512; active *= 2) {
        stride /= 2;
        __syncthreads();
        int left = stride * (2 * t + 1) - 1;
        if (t < active) {
            float sum = tree[skewed<Fixed>(left)];
            tree[skewed<Fixed>(left)] = tree[skewed<Fixed>(left + stride)];
            tree[skewed<Fixed>(left + stride)] += sum;
        }
    }
    __syncthreads();
    for (int i = t; i < 512; i += 256) out[blockIdx.x * 512 + i] = tree[skewed<Fixed>(i)];
}

inline void measure_scan(Kit &kit, const char *name, unsigned blocks) {
    if (!kit.wants(name)) return;
    std::vector<float> in = kit.uniform(blocks * 512);
    Reference reference{std::vector<double>(in.size()), 1e-4};
    for (size_t i = 1; i < in.size(); ++i)
        reference.values[i] = i % 512 ? reference.values[i - 1] + double(in[i - 1]) : 0;
    kit.pair(name, scan<false>, scan<true>, {blocks, 256}, reference, kit.device(in));
}

// Inclusive sums along rows of 4096 values, 32 values at a time: 16 threads per row go up a tree and down again. The
// two rows of a warp are in the same banks; if fixed, every other row is XORed with 17, which parts them at each stride.
template <bool Fixed> __global__ void cumsum(float *out, const float *in) {
    __shared__ float rows[32 * 32];
    constexpr int kColumns = 4096;
    const int x = threadIdx.x, y = threadIdx.y;
    const size_t first = (size_t(blockIdx.x) * 32 + y) * kColumns;
    auto at = [&](int i) -> float & { return rows[y * 32 + (Fixed && y % 2 ? i ^ 17 : i)]; };
    float carry = 0;
    for (int chunk = 0; chunk < kColumns; chunk += 32) {
        at(x) = in[first + chunk + x];
        at(x + 16) = in[first + chunk + x + 16];
        if (x == 0) at(0) += carry;
        __syncthreads();
        for (int active = 16, stride = 1; active > 0; active /= 2, stride *= 2) {
            const int left = (2 * x + 1) * stride - 1;
            if (x < active) at(left + stride) += at(left);
            __syncthreads();
        }
        for (int active = 2, stride = 8; stride > 0; active *= 2, stride /= 2) {
            const int left = 2 * (x + 1) * stride - 1;
            if (x < active - 1) at(left + stride) += at(left);
            __syncthreads();
        }
        out[first + chunk + x] = at(x);
        out[first + chunk + x + 16] = at(x + 16);
        carry = at(31);
        __syncthreads();
    }
}

inline void measure_cumsum(Kit &kit) {
    if (!kit.wants("cumsum")) return;
    constexpr size_t kRows = 4096, kColumns = 4096;
    std::vector<float> in = kit.uniform(kRows * kColumns);
    Reference reference{std::vector<double>(in.size()), 1e-4};
    for (size_t i = 0; i < in.size(); ++i)
        reference.values[i] = (i % kColumns ? reference.values[i - 1] : 0) + double(in[i]);
    kit.pair("cumsum", cumsum<false>, cumsum<true>, {kRows / 32, {16, 32}}, reference, kit.device(in));
}

// A Fourier transform of 512 complex values per block, the real parts first.
template <bool Fixed> __global__ void fft(float *out, const float *in) {
    __shared__ float2 data[512 + 32];
    auto at = [](int i) { return Fixed ? i + i / 16 : i; };
    int t = threadIdx.x;
    const float *from = in + blockIdx.x * 1024;
    for (int i = t; i < 512; i += 256) data[at(__brev(i) >> 23)] = make_float2(from[i], from[512 + i]);
    for (int half = 1; half < 512; half *= 2) {
        __syncthreads();
        int k = t & (half - 1), i = 2 * (t - k) + k;
        float sine, cosine;
        sincospif(-float(k) / half, &sine, &cosine);
        float2 a = data[at(i)], b = data[at(i + half)];
        float2 turned = make_float2(b.x * cosine - b.y * sine, b.x * sine + b.y * cosine);
        data[at(i)] = make_float2(a.x + turned.x, a.y + turned.y);
        data[at(i + half)] = make_float2(a.x - turned.x, a.y - turned.y);
    }
    __syncthreads();
    for (int i = t; i < 512; i += 256) {
        out[blockIdx.x * 1024 + i] = data[at(i)].x;
        out[blockIdx.x * 1024 + 512 + i] = data[at(i)].y;
    }
}

inline void measure_fft(Kit &kit) {
    if (!kit.wants("fft")) return;
    constexpr int kBlocks = 100;
    std::vector<float> in = kit.uniform(kBlocks * 1024);
    std::vector<double> cosine(512), sine(512);
    for (int i = 0; i < 512; ++i) cosine[i] = std::cos(2 * kPi * i / 512), sine[i] = -std::sin(2 * kPi * i / 512);
    Reference reference{std::vector<double>(in.size()), 1e-5};
    for (int block = 0; block < kBlocks; ++block) {
        const float *from = &in[block * 1024];
        double *to = &reference.values[block * 1024];
        for (int k = 0; k < 512; ++k)
            for (int i = 0; i < 512; ++i) {
                double c = cosine[i * k % 512], s = sine[i * k % 512];
                to[k] += from[i] * c - from[512 + i] * s;
                to[512 + k] += from[i] * s + from[512 + i] * c;
            }
    }
    kit.pair("fft", fft<false>, fft<true>, {kBlocks, 256}, reference, kit.device(in));
}

// Solve one tridiagonal system of 512 unknowns per block by cyclic reduction; the diagonal dominates.
template <bool Fixed> __global__ void solve(float *out, const float *lower, const float *upper, const float *right) {
    __shared__ float a[512 + 16], b[512 + 16], c[512 + 16], d[512 + 16];
    auto at = [](int i) { return skewed<Fixed>(i); };
    int t = threadIdx.x, first = blockIdx.x * 512;
    for (int i = t; i < 512; i += 256) {
        a[at(i)] = i ? lower[first + i] : 0;
        b[at(i)] = 4;
        c[at(i)] = i < 511 ? upper[first + i] : 0;
        d[at(i)] = right[first + i];
    }
    int stride = 1;
    for (; stride < 512; stride *= 2) { // equations stride-1 + 2 stride t lose their odd neighbours
        __syncthreads();
        int i = 2 * stride * (t + 1) - 1;
        if (i < 512) {
            int before = i - stride, after = i + stride < 512 ? i + stride : before;
            float p = a[at(i)] / b[at(before)], q = i + stride < 512 ? c[at(i)] / b[at(after)] : 0;
            b[at(i)] -= p * c[at(before)] + q * a[at(after)];
            d[at(i)] -= p * d[at(before)] + q * d[at(after)];
            a[at(i)] = -p * a[at(before)];
            c[at(i)] = -q * c[at(after)];
        }
    }
    __syncthreads();
    if (t == 0) d[at(511)] /= b[at(511)];
    for (stride = 256; stride > 0; stride /= 2) { // d becomes the solution
        __syncthreads();
        int i = 2 * stride * t + stride - 1;
        if (i < 512) {
            float known = d[at(i)];
            if (i >= stride) known -= a[at(i)] * d[at(i - stride)];
            if (i + stride < 512) known -= c[at(i)] * d[at(i + stride)];
            d[at(i)] = known / b[at(i)];
        }
    }
    __syncthreads();
    for (int i = t; i < 512; i += 256) out[first + i] = d[at(i)];
}

inline void measure_solve(Kit &kit) {
    if (!kit.wants("solve")) return;
    constexpr int kBlocks = 48, kCount = kBlocks * 512;
    std::vector<float> lower = kit.uniform(kCount), upper = kit.uniform(kCount), right = kit.uniform(kCount);
    Reference reference{std::vector<double>(kCount), 1e-5};
    for (int first = 0; first < kCount; first += 512) { // Thomas's algorithm
        double *x = &reference.values[first];
        std::vector<double> c(512);
        for (int i = 0; i < 512; ++i) {
            double a = i ? lower[first + i] : 0, pivot = 4 - a * (i ? c[i - 1] : 0);
            c[i] = upper[first + i] / pivot;
            x[i] = (right[first + i] - a * (i ? x[i - 1] : 0)) / pivot;
        }
        for (int i = 510; i >= 0; --i) x[i] -= c[i] * x[i + 1];
    }
    kit.pair("solve", solve<false>, solve<true>, {kBlocks, 256}, reference, kit.device(lower), kit.device(upper),
             kit.device(right));
}

// Sum eight fields of each of 64 particles, weighted, again and again; a particle is a struct of 8 or 9 words.
template <bool Fixed> __global__ void particles(float *out, const float *in, int rounds) {
    constexpr int kPitch = 8 + Fixed;
    __shared__ float fields[64 * kPitch];
    int t = threadIdx.x;
    for (int i = t; i < 512; i += 64) fields[i / 8 * kPitch + i % 8] = in[blockIdx.x * 512 + i];
    __syncthreads();
    float sum = 0;
#pragma unroll 1
    for (int round = 0; round < rounds; ++round)
#pragma unroll 1
        for (int field = 0; field < 8; ++field)
            sum = 0.5f * sum + fields[(t + round) % 64 * kPitch + field];
    out[blockIdx.x * 64 + t] = sum;
}

inline void measure_particles(Kit &kit) {
    if (!kit.wants("particles")) return;
    constexpr int kBlocks = 396, kRounds = 16;
    std::vector<float> in = kit.uniform(kBlocks * 512);
    Reference reference{std::vector<double>(kBlocks * 64), 1e-5};
    for (int i = 0; i < kBlocks * 64; ++i)
        for (int k = 0; k < kRounds * 8; ++k)
            reference.values[i] = 0.5 * reference.values[i] + in[i / 64 * 512 + (i + k / 8) % 64 * 8 + k % 8];
    kit.pair("particles", particles<false>, particles<true>, {kBlocks, 64}, reference, kit.device(in), kRounds);
}

} // namespace pairs
