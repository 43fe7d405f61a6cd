// Pairs that multiply matrices, C = A B' with rows of A and B along k: FFMA, mma.sync with ldmatrix, WMMA; few blocks.
#pragma once

#include <cuda_fp16.h>
#include <mma.h>

#include "kit.cuh"
#include "ptx.cuh"

namespace pairs {

inline Reference product(const std::vector<float> &a, const std::vector<float> &b, int m, int n, int k, double tolerance) {
    Reference reference{std::vector<double>(size_t(m) * n), tolerance};
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j)
            for (int l = 0; l < k; ++l) reference.values[size_t(i) * n + j] += double(a[i * k + l]) * b[j * k + l];
    return reference;
}

inline std::vector<__half> rounded(std::vector<float> &values) {
    std::vector<__half> halves;
    for (float &value : values) {
        halves.push_back(__float2half(value));
        value = __half2float(halves.back());
    }
    return halves;
}

// One element per thread; lanes read down a column of the tile of B.
template <bool Fixed> __global__ void multiply_tiles(float *c, const float *a, const float *b, int n, int k) {
    alignas(16) __shared__ float left[32][32], right[32][Fixed ? 36 : 32];
    int x = threadIdx.x, y = threadIdx.y;
    float sum = 0;
    for (int start = 0; start < k; start += 32) {
        left[y][x] = a[(blockIdx.y * 32 + y) * k + start + x];
        right[y][x] = b[(blockIdx.x * 32 + y) * k + start + x];
        __syncthreads();
        for (int i = 0; i < 32; ++i) sum += left[y][i] * right[x][i];
        __syncthreads();
    }
    c[(blockIdx.y * 32 + y) * n + blockIdx.x * 32 + x] = sum;
}

// 64x64 per block of 64 threads, 8x8 per thread; the tiles are turned as they are stored.
template <bool Fixed> __global__ void multiply_registers(float *c, const float *a, const float *b, int n, int k) {
    constexpr int kPitch = 64 + Fixed;
    __shared__ float left[16 * kPitch], right[16 * kPitch];
    int t = threadIdx.x, x = t % 8, y = t / 8;
    float sums[8][8] = {};
    for (int start = 0; start < k; start += 16) {
        for (int i = t; i < 1024; i += 64) {
            left[i % 16 * kPitch + i / 16] = a[(blockIdx.y * 64 + i / 16) * k + start + i % 16];
            right[i % 16 * kPitch + i / 16] = b[(blockIdx.x * 64 + i / 16) * k + start + i % 16];
        }
        __syncthreads();
        for (int l = 0; l < 16; ++l)
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 8; ++j) sums[i][j] += left[l * kPitch + y + 8 * i] * right[l * kPitch + x + 8 * j];
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; ++j) c[(blockIdx.y * 64 + y + 8 * i) * n + blockIdx.x * 64 + x + 8 * j] = sums[i][j];
}

// 64x64 per block of 256 threads, 4x4 per thread; cp.async fills one pair of tiles while the other is multiplied.
template <bool Fixed> __global__ void multiply_async(float *c, const float *a, const float *b, int n, int k) {
    constexpr int kPitch = Fixed ? 20 : 16;
    alignas(16) __shared__ float left[2][64 * kPitch], right[2][64 * kPitch];
    int t = threadIdx.x, x = t % 16, y = t / 16, row = t / 4, chunk = t % 4 * 4;
    auto fill = [&](int step) {
        uint32_t to = uint32_t(__cvta_generic_to_shared(&left[step % 2][row * kPitch + chunk]));
        ptx::cp_async_16(to, a + (blockIdx.y * 64 + row) * k + step * 16 + chunk);
        to = uint32_t(__cvta_generic_to_shared(&right[step % 2][row * kPitch + chunk]));
        ptx::cp_async_16(to, b + (blockIdx.x * 64 + row) * k + step * 16 + chunk);
        ptx::cp_async_commit();
    };
    float sums[4][4] = {};
    fill(0);
    for (int step = 0; step < k / 16; ++step) {
        ptx::cp_async_wait<0>();
        __syncthreads();
        if (step + 1 < k / 16) fill(step + 1);
        const float *as = left[step % 2], *bs = right[step % 2];
        for (int l = 0; l < 16; ++l)
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j)
                    sums[i][j] += as[(y + 16 * i) * kPitch + l] * bs[(x + 16 * j) * kPitch + l];
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) c[(blockIdx.y * 64 + y + 16 * i) * n + blockIdx.x * 64 + x + 16 * j] = sums[i][j];
}

// 64x64 per block of four warps on tensor cores; rows of 128 bytes, in 16-byte chunks that are swizzled or not.
template <bool Fixed, int Stages>
__global__ void multiply_mma(float *c, const __half *a, const __half *b, int n, int k) {
    alignas(128) __shared__ unsigned char tiles[Stages][2][64 * 128];
    auto at = [](int row, int chunk) { return row * 128 + (Fixed ? chunk ^ (row & 7) : chunk) * 16; };
    int t = threadIdx.x, lane = t % 32, x = t / 32 % 2, y = t / 64;
    auto fill = [&](int step) {
        for (int i = t; i < 512; i += 128) {
            int row = i / 8, chunk = i % 8;
            uint32_t to = uint32_t(__cvta_generic_to_shared(tiles[step % Stages][0])) + at(row, chunk);
            ptx::cp_async_16(to, a + (blockIdx.y * 64 + row) * k + step * 64 + chunk * 8);
            ptx::cp_async_16(to + 64 * 128, b + (blockIdx.x * 64 + row) * k + step * 64 + chunk * 8);
        }
        ptx::cp_async_commit();
    };
    float sums[2][4][4] = {};
    for (int step = 0; step < Stages - 1; ++step) fill(step);
    for (int step = 0; step < k / 64; ++step) {
        if (Stages == 1) fill(step);
        ptx::cp_async_wait<0>();
        __syncthreads();
        if (Stages > 1 && step + 1 < k / 64) fill(step + 1);
        uint32_t left = uint32_t(__cvta_generic_to_shared(tiles[step % Stages][0])), right = left + 64 * 128;
        for (int l = 0; l < 4; ++l) {
            uint32_t as[2][4], bs[2][4];
            for (int i = 0; i < 2; ++i) ptx::ldmatrix_x4(as[i], left + at(y * 32 + i * 16 + lane % 16, l * 2 + lane / 16));
            for (int j = 0; j < 2; ++j) // columns j*16..+7 and +8..15, the halves of k of each next to one another
                ptx::ldmatrix_x4(bs[j], right + at(x * 32 + j * 16 + lane / 16 * 8 + lane % 8, l * 2 + lane / 8 % 2));
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 4; ++j)
                    ptx::mma_m16n8k16_f16(sums[i][j], as[i], bs[j / 2][j % 2 * 2], bs[j / 2][j % 2 * 2 + 1]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 4; ++j)
            for (int e = 0; e < 4; ++e) {
                int row = blockIdx.y * 64 + y * 32 + i * 16 + lane / 4 + e / 2 * 8;
                c[row * n + blockIdx.x * 64 + x * 32 + j * 8 + lane % 4 * 2 + e % 2] = sums[i][j][e];
            }
}

// The same with WMMA, whose loads take a pitch and no swizzle.
template <bool Fixed> __global__ void multiply_wmma(float *c, const __half *a, const __half *b, int n, int k) {
    using namespace nvcuda;
    constexpr int kPitch = Fixed ? 72 : 64;
    alignas(128) __shared__ __half left[64 * kPitch], right[64 * kPitch];
    int t = threadIdx.x, x = t / 32 % 2, y = t / 64;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[2][2];
    for (int i = 0; i < 4; ++i) wmma::fill_fragment(sums[i / 2][i % 2], 0.0f);
    for (int start = 0; start < k; start += 64) {
        for (int i = t; i < 512; i += 128) {
            int row = i / 8, chunk = i % 8 * 8;
            *reinterpret_cast<uint4 *>(&left[row * kPitch + chunk]) =
                *reinterpret_cast<const uint4 *>(a + (blockIdx.y * 64 + row) * k + start + chunk);
            *reinterpret_cast<uint4 *>(&right[row * kPitch + chunk]) =
                *reinterpret_cast<const uint4 *>(b + (blockIdx.x * 64 + row) * k + start + chunk);
        }
        __syncthreads();
        for (int l = 0; l < 64; l += 16)
            for (int i = 0; i < 2; ++i) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> as;
                wmma::load_matrix_sync(as, &left[(y * 32 + i * 16) * kPitch + l], kPitch);
                for (int j = 0; j < 2; ++j) {
                    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> bs;
                    wmma::load_matrix_sync(bs, &right[(x * 32 + j * 16) * kPitch + l], kPitch);
                    wmma::mma_sync(sums[i][j], as, bs, sums[i][j]);
                }
            }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
        float *to = c + (blockIdx.y * 64 + y * 32 + i / 2 * 16) * n + blockIdx.x * 64 + x * 32 + i % 2 * 16;
        wmma::store_matrix_sync(to, sums[i / 2][i % 2], n, wmma::mem_row_major);
    }
}

struct Sizes {
    int m, n, k, tile;
    dim3 block;
};

template <typename Kernel> void measure_product(Kit &kit, const char *name, Kernel before, Kernel after, Sizes sizes) {
    if (!kit.wants(name)) return;
    auto [m, n, k, tile, block] = sizes;
    std::vector<float> a = kit.uniform(size_t(m) * k), b = kit.uniform(size_t(n) * k);
    Shape shape{{unsigned(n / tile), unsigned(m / tile)}, block};
    if constexpr (std::is_same_v<Kernel, void (*)(float *, const __half *, const __half *, int, int)>) {
        std::vector<__half> left = rounded(a), right = rounded(b);
        kit.pair(name, before, after, shape, product(a, b, m, n, k, 1e-5), kit.device(left), kit.device(right), n, k);
    } else {
        kit.pair(name, before, after, shape, product(a, b, m, n, k, 1e-5), kit.device(a), kit.device(b), n, k);
    }
}

inline void measure_products(Kit &kit) {
    measure_product(kit, "sgemm_tiles", multiply_tiles<false>, multiply_tiles<true>, {256, 256, 256, 32, {32, 32}});
    measure_product(kit, "sgemm_registers", multiply_registers<false>, multiply_registers<true>,
                    {512, 512, 256, 64, 64});
    measure_product(kit, "sgemm_async", multiply_async<false>, multiply_async<true>, {512, 1024, 256, 64, 256});
    measure_product(kit, "mma", multiply_mma<false, 1>, multiply_mma<true, 1>, {512, 512, 1024, 64, 128});
    measure_product(kit, "mma_pipelined", multiply_mma<false, 2>, multiply_mma<true, 2>, {512, 512, 1024, 64, 128});
    measure_product(kit, "mma_few_blocks", multiply_mma<false, 1>, multiply_mma<true, 1>, {64, 512, 2048, 64, 128});
    measure_product(kit, "wmma", multiply_wmma<false>, multiply_wmma<true>, {512, 512, 512, 64, 128});
}

} // namespace pairs
