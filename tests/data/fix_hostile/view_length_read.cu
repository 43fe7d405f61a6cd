// padding; refused: ld|used for more
struct V {
    float *p; int ld;
    __device__ float &operator()(int r, int c) const { return p[r * ld + c]; }
};
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    V v{t, 32};
    v(y, x) = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = v(x, y);
    if (flag) out[1] = v.ld;  // WRONG
}
