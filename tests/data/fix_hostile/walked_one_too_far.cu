// padding; refused: it may leave its row
__global__ void k(const float *in, float *out, int n) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    const float *p = t[x];
    float s = 0;
    for (int i = 0; i < 8; ++i) {
        p += 4;
        if (i < n) s += *p;  // WRONG
    }
    out[y * 32 + x] = s;
}
