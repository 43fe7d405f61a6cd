// flat; harmless: get is named where it is not followed
__device__ float get(const float *p, int r, int c) { return p[r * 32 + c]; }
template <float (*G)(const float *, int, int)> __device__ float run(const float *q) { return G(q, 1, 2); }
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = get(t, x, y);
    if (flag) out[1] = run<get>(in);  // WRONG
}
