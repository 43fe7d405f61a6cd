// flat; written: p[x * 32 + (y ^ (x & 31))]
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    const float *p = nullptr;
    p = t;
    if (p != nullptr) out[y * 32 + x] = p[x * 32 + y];
}
