// C = A B in fp32 through a ring of cp.async stages, one barrier a tile.
#include "ptx.cuh"

constexpr int kN = 256, kRows = 32, kDepth = 16, kStages = 3, kThreads = 128;

struct Stage {
    float a[kRows][kDepth], b[kDepth][kRows];
};

__device__ void load(Stage &stage, const float *in, int row, int column, int k) {
    const int t = threadIdx.x;
    ptx::cp_async_16(__cvta_generic_to_shared(&stage.a[t / 4][t % 4 * 4]), in + (row + t / 4) * kN + k + t % 4 * 4);
    ptx::cp_async_16(__cvta_generic_to_shared(&stage.b[t / 8][t % 8 * 4]),
                     in + kN * kN + (k + t / 8) * kN + column + t % 8 * 4);
}

extern "C" __global__ void kernel(const float *in, float *out) {
    __shared__ __align__(128) Stage stages[kStages];
    const int t = threadIdx.x, row = blockIdx.y * kRows, column = blockIdx.x * kRows;
    for (int stage = 0; stage < kStages - 1; ++stage) {
        load(stages[stage], in, row, column, stage * kDepth);
        ptx::cp_async_commit();
    }
    float sum[8] = {};
    for (int tile = 0; tile < kN / kDepth; ++tile) {
        ptx::cp_async_wait<kStages - 2>();
        __syncthreads();
        const int next = tile + kStages - 1;
        if (next < kN / kDepth) {
            load(stages[next % kStages], in, row, column, next * kDepth);
        }
        ptx::cp_async_commit();
        const Stage &now = stages[tile % kStages];
        for (int k = 0; k < kDepth; ++k) {
            for (int i = 0; i < 8; ++i) {
                sum[i] += now.a[t / 4][k] * now.b[k][t % 4 * 8 + i];
            }
        }
    }
    for (int i = 0; i < 8; ++i) {
        out[(row + t / 4) * kN + column + t % 4 * 8 + i] = sum[i];
    }
}
