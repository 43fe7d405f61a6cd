__global__ void k(const float *x, float *y) {
    __shared__ float s[32][33];
    int b = blockIdx.x, t = threadIdx.x;
    for (int r = 0; r < 32; ++r) s[r][t] = x[(b * 32 + r) * 32 + t];
    __syncthreads();
    for (int r = 0; r < 32; ++r) y[(b * 32 + r) * 32 + t] = s[t][r] + b % 7;
}
