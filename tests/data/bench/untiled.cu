
__global__ void k(int *x, int *y, int *g, int *c, int n, int flag, int seed) {
    for (int i = threadIdx.y * 32 + threadIdx.x; i < 1024; i += 256) {
        y[blockIdx.x * 1024 + i] = x[blockIdx.x * 1024 + i % 32 * 32 + i / 32];
        if (flag) c[i / 32] += g[i % 32 * 32 + i / 32];
    }
}
