// Distances between vectors: a device function gets a pointer to a row of the tile.

constexpr int kDim = 32;

__device__ float dot(const float* u, const float* v) {
    float sum = 0.0f;
#pragma unroll
    for (int d = 0; d < kDim; ++d) sum += u[d] * v[d];
    return sum;
}

__device__ void load_rows(float* rows, const float* from, int count) {
    for (int i = threadIdx.x; i < count * kDim; i += blockDim.x) rows[i] = from[i];
}

__global__ void similarities(const float* keys, const float* query, float* result) {
    __shared__ float vectors[128 * kDim];
    __shared__ float wanted[kDim];
    load_rows(vectors, keys + blockIdx.x * 128 * kDim, 128);
    load_rows(wanted, query, 1);
    __syncthreads();
    result[blockIdx.x * 128 + threadIdx.x] = dot(&vectors[threadIdx.x * kDim], wanted);
}
