__global__ void stages(const float* x, float* y) {
    __shared__ float t[2][4][8][8];
    int i = threadIdx.x, j = threadIdx.y, k = threadIdx.z;
    for (int s = 0; s < 2; ++s) t[s][k][j][i] = x[((s * 4 + k) * 8 + j) * 8 + i];
    __syncthreads();
    for (int s = 0; s < 2; ++s) y[((s * 4 + k) * 8 + j) * 8 + i] = t[s][i % 4][j][k + 4 * (i / 4)];
}
