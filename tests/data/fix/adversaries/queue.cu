#define AT(y, x) tile[y][x]
__global__ void k(const float *x, float *y, unsigned *count) {
    __shared__ float tile[32][32];
    const int t = threadIdx.x, at = (blockIdx.x * 32 + t) * 32;
    for (int r = 0; r < 32; ++r) AT(r, t) = x[(blockIdx.x * 32 + r) * 32 + t];
    __syncthreads();
    for (int r = 0; r < 32; ++r) { float v = AT(t, r); if (v > 1.f) y[atomicAdd(count, 1u)] = v; }
}
