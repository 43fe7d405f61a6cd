// Scores of 32 queries against 32 keys of D floats, both in one block of dynamic shared memory.

template <int D>
__device__ void load(float *to, const float *from) {
    for (int i = threadIdx.x; i < 32 * D; i += blockDim.x) to[i] = from[blockIdx.x * 32 * D + i];
}

template <int D>
__global__ void scores(const float *queries, const float *keys, float *out) {
    extern __shared__ float smem[];
    float *q = smem;
    float *k = q + 32 * D;

    load<D>(q, queries);
    load<D>(k, keys);
    __syncthreads();

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int row = warp; row < 32; row += blockDim.x / 32) {
        float dot = 0;
        for (int d = 0; d < D; ++d) dot += q[row * D + d] * k[lane * D + d];
        out[(blockIdx.x * 32 + row) * 32 + lane] = dot;
    }
}

template __global__ void scores<64>(const float *, const float *, float *);
