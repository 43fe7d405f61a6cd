extern "C" __global__ void turn(const float *x, float *y, int n) {
    __shared__ float tile[32][32];
    tile[threadIdx.x][threadIdx.y] = x[threadIdx.y * n + threadIdx.x];
    __syncthreads();
    y[threadIdx.y * n + threadIdx.x] = tile[threadIdx.y][threadIdx.x];
}
extern __shared__ float dynamic[];
extern "C" __global__ void beyond(float *y) {
    dynamic[threadIdx.x * 4] = 1.0f;
    __syncthreads();
    y[threadIdx.x] = dynamic[threadIdx.x];
}
