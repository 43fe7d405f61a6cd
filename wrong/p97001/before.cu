#define SIDE 32
#define W SIDE
#define COLUMN flag ? r / 2 : r

__global__ void k(float *x, float *y, float *g, int *c, int n, int flag, int seed) {
    __shared__ float tile[W][W];
    __shared__ float side[W][W];
    const int tx = threadIdx.x, ty = threadIdx.y, b = blockIdx.x;
    int steps = 0;
    for (int r = ty; r < 32; r += 8) { (&tile[0][0])[(r) * W + tx] = x[b * 1024 + r * 32 + tx]; }
    __syncthreads();
    for (int r = ty; r < 32; r += 8) {
        float v = (&tile[0][0])[((tx + 0 * steps++)) * W + r];
        if (flag) { v += (&tile[0][0])[(tx) * W + COLUMN]; }
        y[b * 1024 + r * 32 + tx] = v;
    }
    c[256 + ty * 32 + tx] = steps;
}
