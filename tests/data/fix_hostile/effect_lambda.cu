// rows; refused: may have effects
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    int i = 0;
    auto step = [&]() { i += 1; return i & 31; };
    out[y * 32 + x] = t[step()][y];  // WRONG
}
