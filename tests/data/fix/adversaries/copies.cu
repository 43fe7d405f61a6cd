#include <cuda_pipeline.h>
__global__ void k(const float4 *x, float *y, int steps) {
    __shared__ __align__(16) float s[2][1024];
    int t = threadIdx.x;
    auto load = [&](int st, int i) {
        __pipeline_memcpy_async(&s[st][t * 4], &x[(blockIdx.x * steps + i) * 256 + t], 16);
        __pipeline_commit();
    };
    load(0, 0);
    float sum = 0;
    for (int i = 0; i < steps; ++i) {
        if (i + 1 < steps) load((i + 1) & 1, i + 1); else __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int k = 0; k < 4; ++k) sum += s[i & 1][t % 32 * 32 + t / 32 * 4 + k];
        __syncthreads();
    }
    y[blockIdx.x * 256 + t] = sum;
}
