// Attention of 32 queries a block over 128 keys, K and V in tiles of 32 by cp.async: V arrives during the first product.
#include "ptx.cuh"

constexpr int kDim = 32, kKeys = 128, kTile = 32, kThreads = 128;

__device__ void copy(float (*to)[kDim], const float *from) {
    for (int i = threadIdx.x; i < kTile * kDim / 4; i += kThreads) {
        ptx::cp_async_16(__cvta_generic_to_shared(&to[i / 8][i % 8 * 4]), from + i * 4);
    }
    ptx::cp_async_commit();
}

extern "C" __global__ void kernel(const float *in, float *out) {
    __shared__ __align__(128) float q[kTile][kDim];
    __shared__ __align__(128) float k[kTile][kDim];
    __shared__ __align__(128) float v[kTile][kDim];
    __shared__ float scores[kTile][kTile + 1];
    const int t = threadIdx.x, query = t / 4, part = t % 4;
    const float *keys = in + (4 + 8 * blockIdx.x) * kTile * kDim, *values = keys + kKeys * kDim;
    copy(q, in + blockIdx.x % 4 * kTile * kDim);
    copy(k, keys);
    float result[8] = {}, total = 0;
    for (int tile = 0; tile < kKeys / kTile; ++tile) {
        copy(v, values + tile * kTile * kDim);
        ptx::cp_async_wait<1>();
        __syncthreads();
        for (int j = part; j < kTile; j += 4) {
            float dot = 0;
            for (int d = 0; d < kDim; ++d) {
                dot += q[query][d] * k[j][d];
            }
            scores[query][j] = exp2f(dot / 8);
        }
        __syncthreads();
        if (tile + 1 < kKeys / kTile) {
            copy(k, keys + (tile + 1) * kTile * kDim);
            ptx::cp_async_wait<1>();
        } else {
            ptx::cp_async_wait<0>();
        }
        __syncthreads();
        for (int j = 0; j < kTile; ++j) {
            total += scores[query][j];
            for (int i = 0; i < 8; ++i) {
                result[i] += scores[query][j] * v[j][part * 8 + i];
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i) {
        out[(blockIdx.x * kTile + query) * kDim + part * 8 + i] = result[i] / total;
    }
}
