// flat; refused: may also be in|also called with in

__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    auto at = [=](int r, int c, const float *p = in) { return p[r * 32 + c]; };  // WRONG
    out[y * 32 + x] = at(x, y, t);
    if (flag) out[1] = at(1, 2);
}
