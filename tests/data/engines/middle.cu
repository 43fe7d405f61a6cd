__global__ void middle(float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = 1.0f;
    __syncthreads();
    int i = 64 * blockIdx.x + threadIdx.x;
    if (blockIdx.x == 7) y[i + 10000] = s[63 - threadIdx.x]; else y[i] = s[threadIdx.x];
    y[i + (blockIdx.x == 40) * 4096] = 2.0f;
}
