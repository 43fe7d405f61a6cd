"""CUDA C++ in strings, for cuda.core's Program or CuPy's RawKernel."""

TURN = r"""
template <int WIDTH>
__global__ void turn(const float* x, float* y, int n) {
    __shared__ float tile[32][WIDTH];
    int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 32 + threadIdx.y;
    for (int row = 0; row < 32; row += blockDim.y)
        tile[threadIdx.y + row][threadIdx.x] = x[(j + row) * n + i];
    __syncthreads();
    i = blockIdx.y * 32 + threadIdx.x, j = blockIdx.x * 32 + threadIdx.y;
    for (int row = 0; row < 32; row += blockDim.y)
        y[(j + row) * n + i] = tile[threadIdx.x][threadIdx.y + row];
}
"""

REDUCE = r"""
extern "C" __global__ void reduce(const float4* x, float* sums, int n) {
    extern __shared__ float part[];
    float total = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        total += x[i].x + x[i].y + x[i].z + x[i].w;
    part[threadIdx.x * STRIDE] = total;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x * STRIDE] += part[(threadIdx.x + step) * STRIDE];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}
"""
