__global__ void fn(float *y) {
    __shared__ float tile[TILE * 4];
    tile[threadIdx.x] = y[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x ^ 1];
}
