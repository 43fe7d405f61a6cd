// padding; refused: row's length is not to be seen|steps over|not understood
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = t[x][y];
    if (flag) for (int i = x; i < 1024; i += 32) (&t[0][0])[i] = 0;  // WRONG
}
