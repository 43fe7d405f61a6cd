// Threads of a warp that store columns of a matrix: 32 sectors a request, on lines of one number in two files.
//
//   nvcc -arch=sm_90 -lineinfo -o columns columns.cu
#include "put.cuh"
#include "set.cuh"

__global__ void columns(const float *in, float *out, int n) {
    int column = blockIdx.x;
    int row = threadIdx.x;
    float value = in[column * n + row];
    put(out, n, column, row, 2 * value);
    __syncthreads();
    set(out, n, n - 1 - column, row, 3 * value);
}

int main() {
    const int n = 256;
    float *in = nullptr, *out = nullptr;
    cudaMalloc(&in, n * n * sizeof(float));
    cudaMalloc(&out, n * n * sizeof(float));
    cudaMemset(in, 0, n * n * sizeof(float));
    columns<<<n, n>>>(in, out, n);
    return cudaDeviceSynchronize() != cudaSuccess;
}
