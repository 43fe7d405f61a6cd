// flat; harmless: get is also called with in, which
template <int N> __device__ float get(const float *p, int r, int c) { return p[r * 32 + c]; }
template <> __device__ float get<7>(const float *p, int r, int c) { return p[r * 32 + c]; }
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = get<1>(t, x, y);
    if (flag) out[1] = get<7>(in, 1, 2);  // WRONG
}
