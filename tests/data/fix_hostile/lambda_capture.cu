// flat; written: p[r * 32 + c]
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    const float *p = t;
    auto at = [p = in](int r, int c) { return p[r * 32 + c]; };
    out[y * 32 + x] = p[x * 32 + y];
    if (flag) out[1] = at(1, 2);
}
