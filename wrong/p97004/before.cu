const int W = 32;
typedef float Rows[W][W];

__global__ void k(float *x, float *y, float *g, int *c, int n, int flag, int seed) {
    __shared__ Rows tile;
    const int tx = threadIdx.x, ty = threadIdx.y, b = blockIdx.x;
    float *one = tile[0], *two = g;
    if (flag) { float *t = one; one = two; two = t; }
    for (int r = ty; r < 32; r += 8) { (tile[0])[(r) * W + tx] = x[b * 1024 + r * 32 + tx]; }
    __syncthreads();
    for (int r = ty; r < 32; r += 8) {
        float v = (tile[0])[(tx) * W + r];
        if (blockIdx.x == 1) { v += one[tx * W + r]; }
        c[512 + r * W + tx] = 1;
        y[b * 1024 + r * 32 + tx] = v;
    }
}
