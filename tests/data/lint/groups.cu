__global__ void groups(const int* weights, const long long* x_ptrs, float* y, const int* sizes) {
    __shared__ float tile[32][32];
    const float* x = reinterpret_cast<const float*>(x_ptrs[blockIdx.x]);
    for (int i = 0; i < sizes[blockIdx.x]; ++i) {
        tile[threadIdx.x][i] = x[i * 32 + threadIdx.x] * weights[threadIdx.x];
        __syncthreads();
        y[i * 32 + threadIdx.x] = tile[i][threadIdx.x];
    }
}
