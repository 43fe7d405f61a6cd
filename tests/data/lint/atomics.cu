__global__ void atomics(int* y) {
    __shared__ int b[1024];
    b[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&b[threadIdx.x * 32 % 1024], 1);
    __syncthreads();
    y[threadIdx.x] = b[threadIdx.x];
}
