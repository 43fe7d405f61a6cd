// rows; harmless: it is evaluated once
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    int i = y;
    out[y * 32 + x] = t[x][i++];
}
