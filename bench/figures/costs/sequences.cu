// Sequences: tables filled along diagonals, a row of the table per thread, recurrences along a row, a chain of states.
#include "layout.cuh"

// The alignment of two sequences: a 32x32 table of scores, one diagonal at a time.
extern "C" __global__ void diagonals(int *out, const int *match, int penalty) {
    constexpr int kPitch = pitch(33);
    __shared__ int score[33 * kPitch], given[32 * kPitch];
    int t = threadIdx.x, base = blockIdx.x * 1024;
    for (int i = 0; i < 32; ++i) given[i * kPitch + t] = match[base + i * 32 + t];
    score[t + 1] = -penalty * (t + 1);
    score[(t + 1) * kPitch] = -penalty * (t + 1);
    if (t == 0) score[0] = 0;
    __syncwarp();
    for (int d = 0; d < 63; ++d) {
        int row = t + 1, column = d - t + 1;
        if (column >= 1 && column <= 32) {
            int along = score[(row - 1) * kPitch + column - 1] + given[(row - 1) * kPitch + column - 1];
            int down = score[(row - 1) * kPitch + column] - penalty, right = score[row * kPitch + column - 1] - penalty;
            score[row * kPitch + column] = max(along, max(down, right));
        }
        __syncwarp();
    }
    for (int i = 0; i < 32; ++i) out[base + i * 32 + t] = score[(i + 1) * kPitch + t + 1];
}

// The same of short sequences, a pair per thread, which keeps one row of the table.
extern "C" __global__ void alignments(int *out, const int *a, const int *b, int length) {
    __shared__ int rows[32 * 128];
    int t = threadIdx.x, pair = blockIdx.x * 128 + t, best = 0, pairs = gridDim.x * 128;
    for (int j = 0; j < 32; ++j) rows[kFixed ? j * 128 + t : t * 32 + j] = 0;
    for (int i = 0; i < length; ++i) {
        int symbol = a[i * pairs + pair], diagonal = 0, left = 0;
#pragma unroll 4
        for (int j = 0; j < 32; ++j) {
            int *cell = &rows[kFixed ? j * 128 + t : t * 32 + j], up = *cell;
            int score = max(max(0, diagonal + (symbol == b[j * pairs + pair] ? 2 : -1)), max(up, left) - 1);
            *cell = left = score;
            diagonal = up;
            best = max(best, score);
        }
    }
    out[pair] = best;
}

// Tridiagonal systems of 16 unknowns, one per thread, eliminated and substituted in shared memory.
extern "C" __global__ void tridiagonal(float *out, const float *lower, const float *upper, const float *right) {
    constexpr int kPitch = pitch(16);
    __shared__ float ratio[64 * kPitch], value[64 * kPitch];
    int t = threadIdx.x, base = blockIdx.x * 1024;
    for (int i = t; i < 1024; i += 64) {
        ratio[i / 16 * kPitch + i % 16] = 0.2f * upper[base + i];
        value[i / 16 * kPitch + i % 16] = right[base + i];
    }
    __syncthreads();
    float *r = ratio + t * kPitch, *v = value + t * kPitch;
    for (int i = 1; i < 16; ++i) {
        float below = 0.2f * lower[blockIdx.x * 1024 + i * 64 + t], scale = 1 / (4 - below * r[i - 1]);
        r[i] *= scale;
        v[i] = (v[i] - below * v[i - 1]) * scale;
    }
    for (int i = 14; i >= 0; --i) v[i] -= r[i] * v[i + 1];
    __syncthreads();
    for (int i = t; i < 1024; i += 64) out[base + i] = value[i / 16 * kPitch + i % 16];
}

// The forward pass of a hidden Markov model of 32 states: a warp per sequence, four in a block.
extern "C" __global__ void forward(float *out, const float *step, const float *emit, const int *seen, int length) {
    constexpr int kPitch = pitch(32);
    __shared__ float table[32 * kPitch], chance[4][32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, sequence = blockIdx.x * 4 + warp;
    for (int i = warp; i < 32; i += 4) table[i * kPitch + lane] = fabsf(step[i * 32 + lane]);
    chance[warp][lane] = 1.0f / 32;
    __syncthreads();
    for (int i = 0; i < length; ++i) {
        float sum = 0, all;
        for (int j = 0; j < 32; ++j) sum += table[lane * kPitch + j] * chance[warp][j];
        all = sum *= fabsf(emit[seen[sequence * length + i] * 32 + lane]) + 0.01f;
        for (int far = 16; far > 0; far /= 2) all += __shfl_xor_sync(0xffffffffu, all, far);
        __syncwarp();
        chance[warp][lane] = sum / all;
        __syncwarp();
    }
    out[sequence * 32 + lane] = chance[warp][lane];
}

// A recurrence of second order along rows of 64, which a block loads and stores by columns.
extern "C" __global__ void recurrence(float *out, const float *in) {
    constexpr int kPitch = pitch(64);
    __shared__ float tile[64 * kPitch];
    int t = threadIdx.x, base = blockIdx.x * 4096;
    for (int i = t; i < 4096; i += 64) tile[i / 64 * kPitch + i % 64] = in[base + i];
    __syncthreads();
    float last = 0, older = 0;
#pragma unroll 4
    for (int i = 0; i < 64; ++i) {
        float next = tile[t * kPitch + i] + 1.2f * last - 0.5f * older;
        tile[t * kPitch + i] = next;
        older = last;
        last = next;
    }
    __syncthreads();
    for (int i = t; i < 4096; i += 64) out[base + i] = tile[i / 64 * kPitch + i % 64];
}
