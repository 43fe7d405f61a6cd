// Transforms: butterflies of radix 2 and 8, wavelets in place, cosines of 8x8 blocks, complex numbers by their parts.
#include "layout.cuh"

__device__ __forceinline__ void eight(float (&v)[8]) {
    for (int far = 4; far > 0; far /= 2)
        for (int i = 0; i < 8; ++i)
            if (!(i & far)) {
                float a = v[i], b = v[i + far];
                v[i] = a + b;
                v[i + far] = 0.9f * (a - b);
            }
}

// 512 values by 64 threads in three passes of radix 8, with two exchanges between them.
extern "C" __global__ void radix8(float *out, const float *in) {
    constexpr int kRow = pitch(8), kPlane = 8 * kRow;
    __shared__ float held[4][8 * kPlane];
    int t = threadIdx.x, high = t / 8, low = t % 8, group = threadIdx.y, base = (blockIdx.x * 4 + group) * 512;
    float v[8], *s = held[group];
    for (int i = 0; i < 8; ++i) v[i] = in[base + i * 64 + t];
    eight(v);
    for (int i = 0; i < 8; ++i) s[high * kPlane + low * kRow + i] = v[i];
    __syncthreads();
    for (int i = 0; i < 8; ++i) v[i] = s[i * kPlane + high * kRow + low];
    eight(v);
    __syncthreads();
    for (int i = 0; i < 8; ++i) s[low * kPlane + i * kRow + high] = v[i];
    __syncthreads();
    for (int i = 0; i < 8; ++i) v[i] = s[high * kPlane + low * kRow + i];
    eight(v);
    for (int i = 0; i < 8; ++i) out[base + i * 64 + t] = v[i];
}

// A Walsh transform of 2,048 values per block.
extern "C" __global__ void walsh(float *out, const float *in) {
    __shared__ float held[2048 + 64];
    int t = threadIdx.x, base = blockIdx.x * 2048;
    for (int i = t; i < 2048; i += 256) held[skewed(i)] = in[base + i];
    for (int far = 1; far < 2048; far *= 2) {
        __syncthreads();
        for (int k = t; k < 1024; k += 256) {
            int low = 2 * k - (k & (far - 1));
            float a = held[skewed(low)], b = held[skewed(low + far)];
            held[skewed(low)] = a + b;
            held[skewed(low + far)] = a - b;
        }
    }
    __syncthreads();
    for (int i = t; i < 2048; i += 256) out[base + i] = held[skewed(i)];
}

// Haar wavelets of 1,024 values per block, in place.
extern "C" __global__ void haar(float *out, const float *in) {
    __shared__ float held[1024 + 32];
    int t = threadIdx.x, base = blockIdx.x * 1024;
    for (int i = t; i < 1024; i += 256) held[skewed(i)] = in[base + i];
    for (int step = 2; step <= 1024; step *= 2) {
        __syncthreads();
        for (int k = t; k * step < 1024; k += 256) {
            float a = held[skewed(k * step)], b = held[skewed(k * step + step / 2)];
            held[skewed(k * step)] = 0.7071f * (a + b);
            held[skewed(k * step + step / 2)] = 0.7071f * (a - b);
        }
    }
    __syncthreads();
    for (int i = t; i < 1024; i += 256) out[base + i] = held[skewed(i)];
}

__device__ __forceinline__ void cosines(float *line, int stride) {
    float v[8], w[8];
    for (int i = 0; i < 8; ++i) v[i] = line[i * stride];
    for (int i = 0; i < 4; ++i) {
        w[i] = v[i] + v[7 - i];
        w[4 + i] = v[i] - v[7 - i];
    }
    line[0] = w[0] + w[1] + w[2] + w[3];
    line[4 * stride] = 0.7071f * (w[0] - w[1] - w[2] + w[3]);
    line[2 * stride] = 0.9239f * (w[0] - w[3]) + 0.3827f * (w[1] - w[2]);
    line[6 * stride] = 0.3827f * (w[0] - w[3]) - 0.9239f * (w[1] - w[2]);
    line[stride] = 0.9808f * w[4] + 0.8315f * w[5] + 0.5556f * w[6] + 0.1951f * w[7];
    line[3 * stride] = 0.8315f * w[4] - 0.1951f * w[5] - 0.9808f * w[6] - 0.5556f * w[7];
    line[5 * stride] = 0.5556f * w[4] - 0.9808f * w[5] + 0.1951f * w[6] + 0.8315f * w[7];
    line[7 * stride] = 0.1951f * w[4] - 0.5556f * w[5] + 0.8315f * w[6] - 0.9808f * w[7];
}

// The cosine transform of the 8x8 blocks of an image; a CUDA block has 32x8 pixels, its threads a line of 8 each.
extern "C" __global__ void blocks8(float *out, const float *in, int width) {
    constexpr int kPitch = pitch(32);
    __shared__ float tile[4][8 * kPitch];
    int x = threadIdx.x, z = threadIdx.y, left = blockIdx.x * 32, top = (blockIdx.y * 4 + z) * 8;
    for (int y = 0; y < 8; ++y) tile[z][y * kPitch + x] = in[(top + y) * width + left + x];
    __syncwarp();
    cosines(&tile[z][x], kPitch);
    __syncwarp();
    cosines(&tile[z][x % 8 * kPitch + x / 8 * 8], 1);
    __syncwarp();
    for (int y = 0; y < 8; ++y) out[(top + y) * width + left + x] = tile[z][y * kPitch + x];
}

// Products of complex polynomials of 64 coefficients, whose parts lie next to each other or apart.
extern "C" __global__ void polynomials(float *out, const float *a, const float *b) {
    __shared__ float held[2][128];
    int t = threadIdx.x, base = blockIdx.x * 128;
    auto place = [](int i, int part) { return kFixed ? part * 64 + i : 2 * i + part; };
    for (int part = 0; part < 2; ++part) {
        held[0][place(t, part)] = a[base + part * 64 + t];
        held[1][place(t, part)] = b[base + part * 64 + t];
    }
    __syncthreads();
    float real = 0, imaginary = 0;
#pragma unroll 8
    for (int i = 0; i < 64; ++i) {
        int j = (t - i) & 63;
        float ar = held[0][place(i, 0)], ai = held[0][place(i, 1)], br = held[1][place(j, 0)], bi = held[1][place(j, 1)];
        real += ar * br - ai * bi;
        imaginary += ar * bi + ai * br;
    }
    out[base + t] = real;
    out[base + 64 + t] = imaginary;
}
