#define AT(y, x) tile[y][x]
__global__ void k(const float *x, int *next, float *y, unsigned *count) {
    __shared__ float tile[32][32];
    const int t = threadIdx.x, at = (blockIdx.x * 32 + t) * 32;
    for (int r = 0; r < 32; ++r) AT(r, t) = x[(blockIdx.x * 32 + r) * 32 + t];
    __syncthreads();
    for (int r = 0; r < 32; ++r) y[at + r] = AT(t, r);
    const int head = atomicExch(next + blockIdx.x, t);
    if (head >= 0) y[head] = next[head] + t; else if (atomicCAS(count, 0u, 1u)) y[0] = head;
}
