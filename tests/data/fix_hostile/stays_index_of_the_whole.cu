// wholly; written: swizzled(x * 32 + (y + n) % 40)
__global__ void k(const float *in, float *out, int n) {
    __shared__ float t[32 * 32];
    const int x = threadIdx.x, y = threadIdx.y;
    float *p = t;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = p[x * 32 + (y + n) % 40];
}
