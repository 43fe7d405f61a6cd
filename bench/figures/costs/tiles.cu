// Products and attention, whose conflicts are a part of what they wait for: register tiles, pipelines, tensor cores.
#include "../../kernels/common/ptx.cuh"
#include "layout.cuh"

__device__ __forceinline__ unsigned shared_address(const void *p) { return unsigned(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// C = A B, 64x64 per block, 4x4 per thread; A is turned as it is stored, and nothing but these stores conflicts.
extern "C" __global__ void turned_stores(float *c, const float *a, const float *b, int n) {
    constexpr int kPitch = pitch(64, 4);
    __shared__ __align__(16) float left[16 * kPitch], right[16 * 64];
    int t = threadIdx.x, tx = t % 16, ty = t / 16, column = blockIdx.x * 64, row = blockIdx.y * 64;
    float sum[4][4] = {};
    for (int from = 0; from < n; from += 16) {
        float4 v = *reinterpret_cast<const float4 *>(a + (row + t / 4) * n + from + t % 4 * 4);
        left[(t % 4 * 4 + 0) * kPitch + t / 4] = v.x;
        left[(t % 4 * 4 + 1) * kPitch + t / 4] = v.y;
        left[(t % 4 * 4 + 2) * kPitch + t / 4] = v.z;
        left[(t % 4 * 4 + 3) * kPitch + t / 4] = v.w;
        *reinterpret_cast<float4 *>(right + t * 4) = *reinterpret_cast<const float4 *>(b + (from + ty) * n + column + tx * 4);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            float4 x = *reinterpret_cast<float4 *>(left + k * kPitch + ty * 4), y = *reinterpret_cast<float4 *>(right + k * 64 + tx * 4);
            float one[4] = {x.x, x.y, x.z, x.w}, two[4] = {y.x, y.y, y.z, y.w};
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) sum[i][j] += one[i] * two[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) c[(row + ty * 4 + i) * n + column + tx * 4 + j] = sum[i][j];
}

// C = A B' in double precision, 32x32 per block, 2x2 per thread of 256; both tiles have rows along the sum.
extern "C" __global__ void doubles(double *c, const double *a, const double *b, int n) {
    constexpr int kPitch = pitch(16);
    __shared__ double left[32 * kPitch], right[32 * kPitch];
    int t = threadIdx.x, tx = t % 16, ty = t / 16, column = blockIdx.x * 32, row = blockIdx.y * 32;
    double sum[2][2] = {};
    for (int from = 0; from < n; from += 16) {
        for (int i = ty; i < 32; i += 16) {
            left[i * kPitch + tx] = a[(row + i) * n + from + tx];
            right[i * kPitch + tx] = b[(column + i) * n + from + tx];
        }
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < 16; ++k)
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j) sum[i][j] += left[(ty + 16 * i) * kPitch + k] * right[(tx + 16 * j) * kPitch + k];
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) c[(row + ty + 16 * i) * n + column + tx + 16 * j] = sum[i][j];
}

// C = A B' on tensor cores, 64x64 per block of 128 threads; fragments are read as words, without ldmatrix.
extern "C" __global__ void fragments(float *c, const half *a, const half *b, int n) {
    constexpr int kPitch = pitch(32, 8);
    __shared__ __align__(16) half left[64 * kPitch], right[64 * kPitch];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, row = blockIdx.y * 64, column = blockIdx.x * 64;
    float sum[8][4] = {};
    for (int from = 0; from < n; from += 32) {
        for (int i = t; i < 256; i += 128) {
            *reinterpret_cast<uint4 *>(left + i / 4 * kPitch + i % 4 * 8) = *reinterpret_cast<const uint4 *>(a + (row + i / 4) * n + from + i % 4 * 8);
            *reinterpret_cast<uint4 *>(right + i / 4 * kPitch + i % 4 * 8) = *reinterpret_cast<const uint4 *>(b + (column + i / 4) * n + from + i % 4 * 8);
        }
        __syncthreads();
        auto word = [](const half *p) { return *reinterpret_cast<const unsigned *>(p); };
        for (int k = 0; k < 32; k += 16) {
            const half *mine = left + (warp * 16 + lane / 4) * kPitch + k + lane % 4 * 2;
            unsigned x[4] = {word(mine), word(mine + 8 * kPitch), word(mine + 8), word(mine + 8 * kPitch + 8)};
            for (int j = 0; j < 8; ++j) {
                const half *other = right + (j * 8 + lane / 4) * kPitch + k + lane % 4 * 2;
                mma(sum[j], x, word(other), word(other + 8));
            }
        }
        __syncthreads();
    }
    for (int j = 0; j < 8; ++j)
        for (int i = 0; i < 4; ++i)
            c[(row + warp * 16 + lane / 4 + i / 2 * 8) * n + column + j * 8 + lane % 4 * 2 + i % 2] = sum[j][i];
}

// The same with ldmatrix and three stages of cp.async; tiles have rows of 64 bytes.
extern "C" __global__ void stages3(float *c, const half *a, const half *b, int n) {
    __shared__ __align__(128) half left[3][64 * 32], right[3][64 * 32];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, row = blockIdx.y * 64, column = blockIdx.x * 64;
    auto place = [](int r, int chunk) { return r * 32 + (kFixed ? chunk ^ r / 2 % 4 : chunk) * 8; };
    auto load = [&](int step) {
        if (step * 32 < n)
            for (int i = t; i < 256; i += 128) {
                ptx::cp_async_16(shared_address(&left[step % 3][place(i / 4, i % 4)]), a + (row + i / 4) * n + step * 32 + i % 4 * 8);
                ptx::cp_async_16(shared_address(&right[step % 3][place(i / 4, i % 4)]), b + (column + i / 4) * n + step * 32 + i % 4 * 8);
            }
        ptx::cp_async_commit();
    };
    float sum[8][4] = {};
    load(0);
    load(1);
    for (int step = 0; step * 32 < n; ++step) {
        ptx::cp_async_wait<1>();
        __syncthreads();
        load(step + 2);
        for (int k = 0; k < 2; ++k) {
            unsigned x[4], y[4];
            ptx::ldmatrix_x4(x, shared_address(&left[step % 3][place(warp * 16 + lane % 16, k * 2 + lane / 16)]));
            for (int j = 0; j < 4; ++j) {
                ptx::ldmatrix_x4(y, shared_address(&right[step % 3][place(j * 16 + lane % 16, k * 2 + lane / 16)]));
                mma(sum[j * 2], x, y[0], y[2]);
                mma(sum[j * 2 + 1], x, y[1], y[3]);
            }
        }
    }
    for (int j = 0; j < 8; ++j)
        for (int i = 0; i < 4; ++i)
            c[(row + warp * 16 + lane / 4 + i / 2 * 8) * n + column + j * 8 + lane % 4 * 2 + i % 2] = sum[j][i];
}

// Attention without tensor cores: 32 queries per block, a warp has 4 of them, a lane a key and then two columns.
extern "C" __global__ void scores(float *out, const float *query, const float *keys, const float *values, int count) {
    constexpr int kPitch = pitch(64);
    __shared__ float q[32 * 64], k[32 * kPitch], v[32 * 64];
    int lane = threadIdx.x, warp = threadIdx.y, t = warp * 32 + lane, head = blockIdx.x;
    for (int i = t; i < 2048; i += 256) q[i] = query[head * 2048 + i];
    float most[4], sum[4] = {}, one[4] = {}, two[4] = {};
    for (float &m : most) m = -1e30f;
    for (int from = 0; from < count; from += 32) {
        __syncthreads();
        for (int i = t; i < 2048; i += 256) {
            k[i / 64 * kPitch + i % 64] = keys[(head * count + from) * 64 + i];
            v[i] = values[(head * count + from) * 64 + i];
        }
        __syncthreads();
        float s[4] = {};
#pragma unroll 8
        for (int d = 0; d < 64; ++d)
            for (int i = 0; i < 4; ++i) s[i] += q[(warp * 4 + i) * 64 + d] * k[lane * kPitch + d];
        for (int i = 0; i < 4; ++i) {
            float top = s[i] *= 0.125f;
            for (int far = 16; far > 0; far /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, far));
            float now = fmaxf(most[i], top), old = __expf(most[i] - now), w = __expf(s[i] - now);
            most[i] = now;
            sum[i] *= old, one[i] *= old, two[i] *= old;
            for (int j = 0; j < 32; ++j) {
                float weight = __shfl_sync(0xffffffffu, w, j);
                sum[i] += weight;
                one[i] += weight * v[j * 64 + lane];
                two[i] += weight * v[j * 64 + lane + 32];
            }
        }
    }
    for (int i = 0; i < 4; ++i) {
        out[head * 2048 + (warp * 4 + i) * 64 + lane] = one[i] / sum[i];
        out[head * 2048 + (warp * 4 + i) * 64 + lane + 32] = two[i] / sum[i];
    }
}

// A product whose results are scaled by a row's largest: fragments go to shared memory by words, and leave by rows.
extern "C" __global__ void scaled(float *c, const half *a, const half *b, int n, int depth) {
    constexpr int kPitch = pitch(64, 8);
    __shared__ __align__(16) float held[64 * kPitch];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, row = blockIdx.y * 64, column = blockIdx.x * 64;
    float sum[8][4] = {};
    auto word = [](const half *p) { return *reinterpret_cast<const unsigned *>(p); };
    for (int k = 0; k < depth; k += 16) {
        const half *mine = a + (row + warp * 16 + lane / 4) * depth + k + lane % 4 * 2;
        unsigned x[4] = {word(mine), word(mine + 8 * depth), word(mine + 8), word(mine + 8 * depth + 8)};
        for (int j = 0; j < 8; ++j) {
            const half *other = b + (column + j * 8 + lane / 4) * depth + k + lane % 4 * 2;
            mma(sum[j], x, word(other), word(other + 8));
        }
    }
    for (int j = 0; j < 8; ++j)
        for (int i = 0; i < 2; ++i)
            *reinterpret_cast<float2 *>(held + (warp * 16 + lane / 4 + i * 8) * kPitch + j * 8 + lane % 4 * 2) =
                make_float2(sum[j][i * 2], sum[j][i * 2 + 1]);
    __syncwarp();
    for (int i = 0; i < 16; ++i) {
        float x = held[(warp * 16 + i) * kPitch + lane], y = held[(warp * 16 + i) * kPitch + lane + 32];
        float most = fmaxf(fabsf(x), fabsf(y)) + 1e-6f;
        for (int far = 16; far > 0; far /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, far));
        c[(row + warp * 16 + i) * n + column + lane] = x / most;
        c[(row + warp * 16 + i) * n + column + lane + 32] = y / most;
    }
}

// A convolution with 3x3 taps from 16 channels to 32, 8x8 results: lanes have pixels, which keep 8 channels together.
extern "C" __global__ void convolved(float *out, const float *in, const float *taps) {
    constexpr int kPitch = pitch(8, 4);
    __shared__ __align__(16) float tile[100 * kPitch];
    int lane = threadIdx.x, y = threadIdx.y, base = blockIdx.x * 1600;
    float sum[2][4] = {};
    for (int from = 0; from < 16; from += 8) {
        __syncthreads();
        for (int i = y * 32 + lane; i < 800; i += 256) tile[i / 8 * kPitch + i % 8] = in[base + i / 8 * 16 + from + i % 8];
        __syncthreads();
#pragma unroll 1
        for (int k = 0; k < 9; ++k)
#pragma unroll
            for (int channel = 0; channel < 8; ++channel)
                for (int p = 0; p < 2; ++p) {
                    int pixel = lane + 32 * p;
                    float x = tile[((pixel / 8 + k / 3) * 10 + pixel % 8 + k % 3) * kPitch + channel];
                    for (int i = 0; i < 4; ++i) sum[p][i] += x * taps[((from + channel) * 9 + k) * 32 + y * 4 + i];
                }
    }
    for (int p = 0; p < 2; ++p)
        for (int i = 0; i < 4; ++i) out[(blockIdx.x * 32 + y * 4 + i) * 64 + lane + 32 * p] = sum[p][i];
}

// Four-bit weights, unpacked into shared memory and multiplied with a vector per block; a lane per row.
extern "C" __global__ void packed(float *out, const unsigned *weights, const float *vectors, int size) {
    constexpr int kPitch = pitch(64, 2);
    __shared__ __align__(16) half w[64 * kPitch];
    __shared__ float x[64];
    int t = threadIdx.x;
    float sum = 0;
    for (int from = 0; from < size; from += 64) {
        __syncthreads();
        x[t] = vectors[blockIdx.x * size + from + t];
        for (int i = t; i < 512; i += 64) {
            unsigned eight = weights[(i / 8 * size + from) / 8 + i % 8];
            for (int k = 0; k < 8; k += 2)
                *reinterpret_cast<half2 *>(w + i / 8 * kPitch + i % 8 * 8 + k) =
                    __halves2half2(__int2half_rn(int(eight >> 4 * k & 15) - 8), __int2half_rn(int(eight >> 4 * (k + 1) & 15) - 8));
        }
        __syncthreads();
        for (int k = 0; k < 64; k += 2) {
            float2 v = __half22float2(*reinterpret_cast<half2 *>(w + t * kPitch + k));
            sum += v.x * x[k] + v.y * x[k + 1];
        }
    }
    out[blockIdx.x * 64 + t] = sum;
}
