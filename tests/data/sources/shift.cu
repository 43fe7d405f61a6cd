__device__ float table[64];
extern "C" __global__ void shift(const float* x, float* y, const int* at, int n, int by) {
    __shared__ float s[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] + table[threadIdx.x] : 0.0f;
    __syncthreads();
    if (i < n) y[i + by] = s[63 - threadIdx.x];
    if (i < n) atomicAdd(&y[at[i]], 1.0f);
}
