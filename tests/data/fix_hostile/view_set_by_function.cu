// flat; refused: may also be q, which
struct V {
    const float *p; int ld;
    __device__ float operator()(int r, int c) const { return p[r * ld + c]; }
};
__device__ void set(V &v, const float *q) { v.p = q; }  // WRONG
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    V v{t, 32};
    if (flag) set(v, in);
    out[y * 32 + x] = v(x, y);
}
