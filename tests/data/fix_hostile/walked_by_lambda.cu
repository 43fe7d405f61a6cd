// padding; refused: it may leave its row
__global__ void k(const float *in, float *out, int n) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    const float *p = t[x];
    float s = 0;
    auto next = [&] { return *p++; };  // WRONG
    for (int i = 0; i < n; ++i) s += next();
    out[y * 32 + x] = s;
}
