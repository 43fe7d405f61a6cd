// rows; refused: it may leave its row
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    if (flag) out[0] = reinterpret_cast<unsigned char *>(t[0])[4 * x + 2 * flag];  // WRONG
    out[y * 32 + x] = t[x][y];
}
