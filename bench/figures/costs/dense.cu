// Dense algebra: factors, solutions and inverses in shared memory, shortest paths, distances, products of bytes.
#include "layout.cuh"

// The LU factors of a 32x32 matrix per warp, a row per lane.
extern "C" __global__ void factors(float *out, const float *in) {
    constexpr int kPitch = pitch(32);
    __shared__ float a[2][32 * kPitch];
    int lane = threadIdx.x, base = (blockIdx.x * 2 + threadIdx.y) * 1024;
    float *m = a[threadIdx.y];
    for (int i = 0; i < 32; ++i) m[i * kPitch + lane] = in[base + i * 32 + lane] + (i == lane ? 40 : 0);
    __syncwarp();
    for (int k = 0; k < 31; ++k) {
        if (lane > k) {
            float scale = m[lane * kPitch + k] / m[k * kPitch + k];
            m[lane * kPitch + k] = scale;
            for (int j = k + 1; j < 32; ++j) m[lane * kPitch + j] -= scale * m[k * kPitch + j];
        }
        __syncwarp();
    }
    for (int i = 0; i < 32; ++i) out[base + i * 32 + lane] = m[i * kPitch + lane];
}

// Triangular systems in double precision: 32 right-hand sides per warp.
extern "C" __global__ void triangular(double *out, const double *lower, const double *right) {
    constexpr int kPitch = pitch(32);
    __shared__ double l[32 * 32], x[32 * kPitch];
    int lane = threadIdx.x, base = blockIdx.x * 1024;
    for (int i = 0; i < 32; ++i) {
        l[i * 32 + lane] = lower[i * 32 + lane];
        x[i * kPitch + lane] = right[base + i * 32 + lane];
    }
    __syncwarp();
    for (int i = 0; i < 32; ++i) {
        double sum = x[lane * kPitch + i];
        for (int k = 0; k < i; ++k) sum -= 0.1 * l[i * 32 + k] * x[lane * kPitch + k];
        x[lane * kPitch + i] = sum * 0.5;
    }
    __syncwarp();
    for (int i = 0; i < 32; ++i) out[base + i * 32 + lane] = x[i * kPitch + lane];
}

// The inverses of 4x4 matrices, one per thread, by Gauss and Jordan.
extern "C" __global__ void inverses(float *out, const float *in) {
    constexpr int kPitch = pitch(16);
    __shared__ float all[128 * kPitch];
    int t = threadIdx.x, base = blockIdx.x * 2048;
    for (int i = t; i < 2048; i += 128) all[i / 16 * kPitch + i % 16] = in[base + i];
    __syncthreads();
    float *m = all + t * kPitch;
    for (int i = 0; i < 4; ++i) m[i * 5] += 8;
#pragma unroll 1
    for (int k = 0; k < 4; ++k) {
        float scale = 1 / m[k * 5];
        m[k * 5] = 1;
        for (int j = 0; j < 4; ++j) m[k * 4 + j] *= scale;
#pragma unroll 1
        for (int i = 0; i < 4; ++i) {
            if (i == k) continue;
            float times = m[i * 4 + k];
            m[i * 4 + k] = 0;
            for (int j = 0; j < 4; ++j) m[i * 4 + j] -= times * m[k * 4 + j];
        }
    }
    __syncthreads();
    for (int i = t; i < 2048; i += 128) out[base + i] = all[i / 16 * kPitch + i % 16];
}

// Shortest paths inside a tile of 32x32 distances; consecutive threads have consecutive rows.
extern "C" __global__ void paths(float *out, const float *in) {
    constexpr int kPitch = pitch(32);
    __shared__ float d[32 * kPitch];
    int x = threadIdx.x, y = threadIdx.y, base = blockIdx.x * 1024;
    for (int i = y; i < 32; i += 8) d[i * kPitch + x] = fabsf(in[base + i * 32 + x]);
    for (int k = 0; k < 32; ++k) {
        __syncthreads();
        for (int j = y; j < 32; j += 8)
            if (x != k && j != k) d[x * kPitch + j] = fminf(d[x * kPitch + j], d[x * kPitch + k] + d[k * kPitch + j]);
    }
    __syncthreads();
    for (int i = y; i < 32; i += 8) out[base + i * 32 + x] = d[i * kPitch + x];
}

// Squared distances of 64 points to 64 others, of so many coordinates; 4x4 per thread.
extern "C" __global__ void distances(float *out, const float *a, const float *b, int count, int size) {
    constexpr int kPitch = pitch(32);
    __shared__ float one[64 * kPitch], two[64 * kPitch];
    int t = threadIdx.x, tx = t % 16, ty = t / 16, left = blockIdx.x * 64, top = blockIdx.y * 64;
    float sum[4][4] = {};
    for (int from = 0; from < size; from += 32) {
        for (int i = t; i < 2048; i += 256) {
            one[i / 32 * kPitch + i % 32] = a[(top + i / 32) * size + from + i % 32];
            two[i / 32 * kPitch + i % 32] = b[(left + i / 32) * size + from + i % 32];
        }
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < 32; ++k)
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) {
                    float apart = one[(ty + 16 * i) * kPitch + k] - two[(tx + 16 * j) * kPitch + k];
                    sum[i][j] += apart * apart;
                }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) out[(top + ty + 16 * i) * count + left + tx + 16 * j] = sum[i][j];
}

// The product of matrices of bytes, both with rows along the sum; 64x64 results per block, 4x4 per thread.
extern "C" __global__ void bytes(int *out, const int *a, const int *b, int n) {
    constexpr int kPitch = pitch(16);
    __shared__ int one[64 * kPitch], two[64 * kPitch];
    int t = threadIdx.x, tx = t % 16, ty = t / 16, left = blockIdx.x * 64, top = blockIdx.y * 64, words = n / 4;
    int sum[4][4] = {};
    for (int from = 0; from < words; from += 16) {
        for (int i = t; i < 1024; i += 256) {
            one[i / 16 * kPitch + i % 16] = a[(top + i / 16) * words + from + i % 16];
            two[i / 16 * kPitch + i % 16] = b[(left + i / 16) * words + from + i % 16];
        }
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < 16; ++k)
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j)
                    sum[i][j] = __dp4a(one[(ty + 16 * i) * kPitch + k], two[(tx + 16 * j) * kPitch + k], sum[i][j]);
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) out[(top + ty + 16 * i) * n + left + tx + 16 * j] = sum[i][j];
}

// The nearest of 16 centres for points of 16 coordinates, one per thread.
extern "C" __global__ void nearest(int *out, const float *points, const float *centres) {
    constexpr int kPitch = pitch(16);
    __shared__ float p[256 * kPitch], c[256];
    int t = threadIdx.x, base = blockIdx.x * 4096, best = 0;
    for (int i = t; i < 4096; i += 256) p[i / 16 * kPitch + i % 16] = points[base + i];
    c[t] = centres[t];
    __syncthreads();
    float least = INFINITY;
#pragma unroll 1
    for (int k = 0; k < 16; ++k) {
        float sum = 0;
        for (int i = 0; i < 16; ++i) {
            float apart = p[t * kPitch + i] - c[k * 16 + i];
            sum += apart * apart;
        }
        if (sum < least) {
            least = sum;
            best = k;
        }
    }
    out[blockIdx.x * 256 + t] = best;
}
