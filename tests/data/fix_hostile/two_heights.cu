// rows; harmless: all rows of both are as long
__device__ float get(const float (*p)[32], int r, int c) { return p[r][c]; }
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[32][32], u[64][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = u[y][x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = get(t, x, y) + get(u, x, y);
}
