extern "C" __global__ void turn(const float *x, float *y) {
    __shared__ float tile[32][PITCH];
    tile[threadIdx.x][threadIdx.y] = x[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    y[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.y][threadIdx.x];
}
