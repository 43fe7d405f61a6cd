#define AT(y, x) tile[y][x]
__global__ void k(const float *x, float *y, long long *time) {
    __shared__ float tile[32][32];
    const int t = threadIdx.x, at = (blockIdx.x * 32 + t) * 32;
    for (int r = 0; r < 32; ++r) AT(r, t) = x[(blockIdx.x * 32 + r) * 32 + t];
    __syncthreads();
    const long long start = clock64();
    for (int r = 0; r < 32; ++r) y[at + r] = AT(t, r);
    time[at / 32] = clock64() - start;
}
