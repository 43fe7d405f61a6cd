// flat; refused: may keep another address|followed
struct V {
    const float *p; int ld;
    __device__ float operator()(int r, int c) const { const int i = r * ld + c; return p[i] + 0 * c; }
};
struct U : V {};  // WRONG
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    V v{t, 32};
    out[y * 32 + x] = v(x, y);
    U w; w.p = in; w.ld = 32;
    if (flag) out[1] = w(1, 2);
}
