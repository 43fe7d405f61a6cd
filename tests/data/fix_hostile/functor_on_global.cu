// flat; harmless: also called with in
struct G { __device__ float operator()(const float *p, int r, int c) const { return p[r * 32 + c]; } };
template <class H> __device__ float run(H h, const float *in) { return h(in, 1, 2); }  // WRONG
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    G g;
    out[y * 32 + x] = g(t, x, y);
    if (flag) out[1] = run(g, in);
}
