#define AT(y, x) tile[y][x]
__global__ void k(const float *x, const float *bias, const float *gain, const int *flag, float *y, float none) {
    __shared__ float tile[32][32];
    const int t = threadIdx.x, at = (blockIdx.x * 32 + t) * 32;
    for (int r = 0; r < 32; ++r) AT(r, t) = x[(blockIdx.x * 32 + r) * 32 + t];
    __syncthreads();
    for (int r = 0; r < 32; ++r) y[at + r] += AT(t, r) * gain[at + r] + bias[at + r] + none * x[at + r];
    if (flag[blockIdx.x]) y[at] += x[at] + 1;
}
