// flat; written: add(&t[y * 32 + (x ^ (y & 31))], 1)
__device__ void add(float *p, float v) { *p += v; }
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    add(&t[y * 32 + x], 1);
    if (flag) add(out, 1);
    out[y * 32 + x] = t[x * 32 + y];
}
