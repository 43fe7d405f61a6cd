// rows; refused: is another one where row was made
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    const int i = x;
    const float *row = t[i];
    for (int i = y; i < 32; i += 32) out[i * 32 + x] = row[i];  // WRONG
}
