// flat; refused: base may also be in, which
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    float *const base = t;
    const int x = threadIdx.x, y = threadIdx.y;
    auto at = [&](int r, int c, bool far = false) { return (far ? in : base)[r * 32 + c]; };  // WRONG
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = flag ? at(x, y, true) : at(x, y);
}
