// rows; refused: may change after row was made with it
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    int i = x;
    const float *row = t[i];
    if (flag) i = 3;  // WRONG
    out[y * 32 + x] = row[y];
}
