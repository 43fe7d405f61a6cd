// Streams: rows, records and planes that pass through shared memory once or a few times, much of it limited by memory.
#include "../../kernels/common/ptx.cuh"
#include "layout.cuh"

// Records of 16 numbers become 16 planes.
extern "C" __global__ void records(float *out, const float *in, int count) {
    constexpr int kPitch = pitch(16, 4);
    __shared__ __align__(16) float held[128 * kPitch];
    int t = threadIdx.x, base = blockIdx.x * 2048;
    for (int i = t; i < 2048; i += 128) held[i / 16 * kPitch + i % 16] = in[base + i];
    __syncthreads();
    for (int k = 0; k < 16; ++k) out[k * count + blockIdx.x * 128 + t] = held[t * kPitch + k];
}

// Running sums of 2,048 doubles, 4 consecutive ones per thread.
extern "C" __global__ void sums(double *out, const double *in) {
    __shared__ double held[2048 + 128], totals[16];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, base = blockIdx.x * 2048;
    auto place = [](int i) { return kFixed ? i + i / 16 : i; };
    for (int i = t; i < 2048; i += 512) held[place(i)] = in[base + i];
    __syncthreads();
    double mine[4], sum = 0;
    for (int i = 0; i < 4; ++i) mine[i] = sum += held[place(t * 4 + i)];
    double before = sum;
    for (int far = 1; far < 32; far *= 2) {
        double other = __shfl_up_sync(0xffffffffu, before, far);
        if (lane >= far) before += other;
    }
    if (lane == 31) totals[warp] = before;
    __syncthreads();
    double all = before - sum;
    for (int i = 0; i < warp; ++i) all += totals[i];
    for (int i = 0; i < 4; ++i) held[place(t * 4 + i)] = mine[i] + all;
    __syncthreads();
    for (int i = t; i < 2048; i += 512) out[base + i] = held[place(i)];
}

// A matrix of four-byte pixels, turned 16 bytes at a time: every thread turns 4x4 in registers.
extern "C" __global__ void quads(uint4 *out, const uint4 *in, int width) {
    __shared__ uint4 tile[64 * 16];
    int x = threadIdx.x, y = threadIdx.y, left = blockIdx.x * 16, top = blockIdx.y * 64;
    auto place = [](int row, int quad) { return row * 16 + (kFixed ? quad ^ row / 4 % 8 : quad); };
    for (int i = y; i < 64; i += 16) tile[place(i, x)] = in[(top + i) * width + left + x];
    __syncthreads();
    uint4 a = tile[place(x * 4, y)], b = tile[place(x * 4 + 1, y)], c = tile[place(x * 4 + 2, y)], d = tile[place(x * 4 + 3, y)];
    uint4 *to = out + (blockIdx.x * 64 + y * 4) * width + blockIdx.y * 16 + x;
    to[0] = make_uint4(a.x, b.x, c.x, d.x);
    to[width] = make_uint4(a.y, b.y, c.y, d.y);
    to[2 * width] = make_uint4(a.z, b.z, c.z, d.z);
    to[3 * width] = make_uint4(a.w, b.w, c.w, d.w);
}

// The softmax of columns of 64 rows, with the sums by a thread per column and a tile that was stored by columns.
extern "C" __global__ void columns(float *out, const float *in, int width) {
    constexpr int kPitch = pitch(64);
    __shared__ float tile[32 * kPitch], most[32], sum[32];
    int lane = threadIdx.x, y = threadIdx.y, left = blockIdx.x * 32;
    for (int i = y; i < 64; i += 8) tile[lane * kPitch + i] = in[i * width + left + lane];
    __syncthreads();
    for (int c = y; c < 32; c += 8) {
        float a = tile[c * kPitch + lane], b = tile[c * kPitch + lane + 32], top = fmaxf(a, b);
        for (int far = 16; far > 0; far /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, far));
        float all = __expf(a - top) + __expf(b - top);
        for (int far = 16; far > 0; far /= 2) all += __shfl_xor_sync(0xffffffffu, all, far);
        if (lane == 0) most[c] = top, sum[c] = all;
    }
    __syncthreads();
    for (int i = y; i < 64; i += 8) out[i * width + left + lane] = __expf(tile[lane * kPitch + i] - most[lane]) / sum[lane];
}

// Rows of 128 bytes that are gathered with cp.async, two tiles ahead; then every lane adds up a row, 16 bytes at a time.
extern "C" __global__ void gathered(float *out, const float *table, const int *which, int each) {
    __shared__ __align__(128) float rows[3][32 * 32];
    int lane = threadIdx.x;
    auto load = [&](int step) {
        if (step < each)
            for (int i = 0; i < 8; ++i) {
                int row = i * 4 + lane / 8, chunk = lane % 8, number = which[(blockIdx.x * each + step) * 32 + row];
                ptx::cp_async_16(unsigned(__cvta_generic_to_shared(&rows[step % 3][row * 32 + (kFixed ? chunk ^ row % 8 : chunk) * 4])),
                                 table + number * 32 + chunk * 4);
            }
        ptx::cp_async_commit();
    };
    load(0);
    load(1);
    float sum = 0;
    for (int step = 0; step < each; ++step) {
        ptx::cp_async_wait<1>();
        __syncwarp();
        load(step + 2);
        for (int chunk = 0; chunk < 8; ++chunk) {
            float4 v = *reinterpret_cast<float4 *>(&rows[step % 3][lane * 32 + (kFixed ? chunk ^ lane % 8 : chunk) * 4]);
            sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
        }
        __syncwarp();
    }
    out[blockIdx.x * 32 + lane] = sum;
}

// Heat in a plane of 32x32 for so many steps, two planes in turns; consecutive lanes have consecutive rows.
extern "C" __global__ void heat(float *out, const float *in, int steps) {
    constexpr int kPitch = pitch(32);
    __shared__ float plane[2][32 * kPitch];
    int x = threadIdx.x, y = threadIdx.y, base = blockIdx.x * 1024;
    for (int i = y; i < 32; i += 16) plane[0][i * kPitch + x] = plane[1][i * kPitch + x] = in[base + i * 32 + x];
    for (int step = 0; step < steps; ++step) {
        __syncthreads();
        const float *old = plane[step % 2];
        for (int i = y; i < 32; i += 16)
            if (x > 0 && x < 31 && i > 0 && i < 31) {
                const float *p = old + x * kPitch + i;
                plane[1 - step % 2][x * kPitch + i] = *p + 0.2f * (p[-1] + p[1] + p[-kPitch] + p[kPitch] - 4 * *p);
            }
    }
    __syncthreads();
    for (int i = y; i < 32; i += 16) out[base + i * 32 + x] = plane[steps % 2][i * kPitch + x];
}

// Counters of 64 bins, a set per lane, in which the sets of a bin or the bins of a set are next to each other.
extern "C" __global__ void bins(int *out, const int *in, int each) {
    __shared__ int counts[64 * 32];
    int t = threadIdx.x, lane = t % 32;
    auto place = [lane](int bin) { return kFixed ? bin * 32 + lane : lane * 64 + bin; };
    for (int i = t; i < 2048; i += 256) counts[i] = 0;
    __syncthreads();
    for (int i = 0; i < each; ++i) atomicAdd(&counts[place(in[(blockIdx.x * each + i) * 256 + t])], 1);
    __syncthreads();
    if (t < 64) {
        int sum = 0;
        for (int i = 0; i < 32; ++i) sum += counts[kFixed ? t * 32 + (i + t) % 32 : i * 64 + t];
        out[blockIdx.x * 64 + t] = sum;
    }
}

// The transform of 256 complex doubles in four passes of radix 4, with an exchange after each.
extern "C" __global__ void complexes(double2 *out, const double2 *in) {
    __shared__ double2 held[256 + 64];
    int t = threadIdx.x, base = blockIdx.x * 256;
    auto place = [](int i) { return kFixed ? i + i / 8 : i; };
    for (int i = t; i < 256; i += 64) held[place(i)] = in[base + i];
#pragma unroll 1
    for (int far = 1; far < 256; far *= 4) {
        __syncthreads();
        double2 v[4];
        for (int i = 0; i < 4; ++i) v[i] = held[place(t + i * 64)];
        double2 a = {v[0].x + v[2].x, v[0].y + v[2].y}, b = {v[0].x - v[2].x, v[0].y - v[2].y};
        double2 c = {v[1].x + v[3].x, v[1].y + v[3].y}, d = {v[1].y - v[3].y, v[3].x - v[1].x};
        __syncthreads();
        held[place(t * 4)] = {0.5 * (a.x + c.x), 0.5 * (a.y + c.y)};
        held[place(t * 4 + 1)] = {0.5 * (b.x + d.x), 0.5 * (b.y + d.y)};
        held[place(t * 4 + 2)] = {0.5 * (a.x - c.x), 0.5 * (a.y - c.y)};
        held[place(t * 4 + 3)] = {0.5 * (b.x - d.x), 0.5 * (b.y - d.y)};
    }
    __syncthreads();
    for (int i = t; i < 256; i += 64) out[base + i] = held[place(i)];
}

// The Cholesky factor of a 64x64 matrix per block, columns by a thread each.
extern "C" __global__ void cholesky(float *out, const float *in) {
    constexpr int kPitch = pitch(64);
    __shared__ float m[64 * kPitch];
    int t = threadIdx.x, base = blockIdx.x * 4096;
    for (int i = 0; i < 64; ++i) m[i * kPitch + t] = in[base + i * 64 + t] * 0.1f + (i == t ? 20 : 0);
    for (int k = 0; k < 64; ++k) {
        __syncthreads();
        float root = sqrtf(m[k * kPitch + k]);
        __syncthreads();
        if (t >= k) m[t * kPitch + k] /= root;
        __syncthreads();
        if (t > k)
            for (int j = k + 1; j <= t; ++j) m[t * kPitch + j] -= m[t * kPitch + k] * m[j * kPitch + k];
    }
    __syncthreads();
    for (int i = 0; i < 64; ++i) out[base + i * 64 + t] = t <= i ? m[i * kPitch + t] : 0;
}

// Heads and positions change places: (64 positions, 4 heads, 32 halves) becomes (4, 32, 64).
extern "C" __global__ void heads(half *out, const half *in) {
    constexpr int kPitch = pitch(128, 2);
    __shared__ half held[64 * kPitch];
    int lane = threadIdx.x, y = threadIdx.y, base = blockIdx.x * 8192;
    for (int i = y; i < 64; i += 8)
        for (int j = lane; j < 64; j += 32)
            *reinterpret_cast<half2 *>(held + i * kPitch + j * 2) = reinterpret_cast<const half2 *>(in + base + i * 128)[j];
    __syncthreads();
    for (int d = y; d < 128; d += 8)
        for (int i = lane; i < 64; i += 32) out[base + d * 64 + i] = held[i * kPitch + d];
}

// Bilinear samples of a 64x64 tile along steep lines, whose addresses the data decide in part.
extern "C" __global__ void lines(float *out, const float *in, const float *slopes) {
    constexpr int kPitch = pitch(64);
    __shared__ float tile[65 * kPitch];
    int t = threadIdx.x, base = blockIdx.x * 4096;
    for (int i = t; i < 4096; i += 128) tile[i / 64 * kPitch + i % 64] = in[base + i];
    if (t < 64) tile[64 * kPitch + t] = 0;
    __syncthreads();
    float sum = 0, slope = slopes[blockIdx.x] * 0.01f, column = t / 64 * 16 + 4;
    int row = t % 64;
    for (int i = 0; i < 32; ++i) {
        int left = int(column);
        float part = column - left, *p = tile + row * kPitch + left;
        sum += (p[0] * (1 - part) + p[1] * part) * 0.5f + (p[kPitch] * (1 - part) + p[kPitch + 1] * part) * 0.5f;
        column += fabsf(slope) > 0.5f ? 0.5f : slope * slope;
    }
    out[blockIdx.x * 128 + t] = sum;
}

// Sums over windows of 16 numbers, read twice in eights; a warp's windows are 8 numbers apart.
extern "C" __global__ void windows(float *out, const float *in) {
    __shared__ float held[2064 + 64];
    int t = threadIdx.x, base = blockIdx.x * 2048;
    for (int i = t; i < 2064; i += 256) held[skewed(i)] = i < 2048 ? in[base + i] : 0;
    __syncthreads();
    float sum = 0, square = 0;
    for (int i = 0; i < 16; ++i) {
        float v = held[skewed(t * 8 + i)];
        sum += v;
        square += v * v;
    }
    out[blockIdx.x * 256 + t] = square - sum * sum / 16;
}
