__device__ __forceinline__ double &cell(double (&t)[32][32], int r, int c) { return t[r][c]; }

__global__ void k(double *x, double *y, double *g, int *c, int n, int flag, int seed) {
    __shared__ double tile[32][32];
    __shared__ double side[32][32];
    const int tx = threadIdx.x, ty = threadIdx.y, b = blockIdx.x;
    size_t where = (size_t)(&tile[0][0]);
    for (int r = ty; r < 32; r += 8) { cell(tile, r, tx) = x[b * 1024 + r * 32 + tx]; }
    __syncthreads();
    for (int r = ty; r < 32; r += 8) {
        double v = cell(tile, tx, r);
        if (n > 40) { v += ((double *)where)[tx * 32 + r]; }
        y[b * 1024 + r * 32 + tx] = v;
    }
}
