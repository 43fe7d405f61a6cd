// flat; harmless: at is also called with in, which
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    auto at = [&](const float *p, int r, int c) { return p[r * 32 + c]; };
    out[y * 32 + x] = at(t, x, y);
    if (flag) out[1] = at(in, 1, 2);  // WRONG
}
