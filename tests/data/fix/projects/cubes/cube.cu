__global__ void cube(const float* x, float* y) {
    __shared__ float t[8][8][8];
    int i = threadIdx.x, j = threadIdx.y, k = threadIdx.z;
    t[k][j][i] = x[(k * 8 + j) * 8 + i];
    __syncthreads();
    y[(k * 8 + j) * 8 + i] = t[i][j][k];
}
