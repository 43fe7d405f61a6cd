__global__ void scatter(const long long* x_ptrs, const long long* y_ptrs, const int* sizes) {
    __shared__ int tile[32][32];
    for (int group = 0; group < 2; ++group) {
        for (int i = 0; i < sizes[group]; ++i) tile[i][threadIdx.x] = reinterpret_cast<int*>(x_ptrs[group])[i];
        __syncthreads();
        reinterpret_cast<int*>(y_ptrs[group])[threadIdx.x] = tile[0][threadIdx.x];
    }
}
