__global__ void k(const float *x, float *y, int w, int h) {
    __shared__ float s[32][33];
    int cx = blockIdx.x * 32 + threadIdx.x, cy = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (cx < w && cy + j < h) s[threadIdx.y + j][threadIdx.x] = x[(cy + j) * w + cx];
    __syncthreads();
    cx = blockIdx.y * 32 + threadIdx.x, cy = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (cx < h && cy + j < w) y[(cy + j) * h + cx] = s[threadIdx.x][threadIdx.y + j];
}
