// rows; harmless: is also called with
struct S { float a[32][32]; };
__device__ float get(const S &s, int r, int c) { return s.a[r][c]; }
__global__ void k(const float *in, float *out, int flag) {
    __shared__ S s;
    const int x = threadIdx.x, y = threadIdx.y;
    s.a[y][x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = get(s, x, y);
    if (flag) out[1] = get(*(const S *)in, 1, 2);  // WRONG
}
