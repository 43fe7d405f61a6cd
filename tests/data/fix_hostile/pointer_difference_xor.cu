// rows; harmless: the difference of addresses is as before
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = t[x][y];
    if (flag) out[&t[1][3] - &t[0][0]] = 1;
}
