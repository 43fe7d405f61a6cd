// flat; harmless: the other call is to another function
__device__ float get(const float *p, int r, int c) { return p[r * 32 + c]; }
__device__ float get(const double *p, int r, int c) { return p[0]; }
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = get(t, x, y);
    const double *w = (const double *)in;
    if (flag) out[1] = get(w, 1, 2);
}
