// Sums of columns, of rows that cp.async brings in fours and that are read as one vector.

#include <cuda_pipeline.h>

constexpr int T = 32;

__global__ void granules_sum(const float4* in, float* out, int rows) {
    __shared__ __align__(16) float s[2][T][T * 4];
    auto load = [&](int stage, int row) {
        __pipeline_memcpy_async(&s[stage][threadIdx.y][threadIdx.x * 4], &in[(row + threadIdx.y) * T + threadIdx.x], 16);
        __pipeline_commit();
    };
    load(0, 0);
    float sum = 0;
    for (int r = 0; r < rows; ++r) {
        if (r + 1 < rows)
            load((r + 1) & 1, (r + 1) * T);
        else
            __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int k = 0; k < 4; ++k) sum += s[r & 1][threadIdx.x][threadIdx.y * 4 + k];
        __syncthreads();
    }
    out[threadIdx.y * T + threadIdx.x] = sum;
}
