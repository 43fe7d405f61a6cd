// flat; written: memcpy(&own, t + x * 32 + (y ^ (x & 31)), 4)
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = t[x * 32 + y];
    float own;
    memcpy(&own, t + x * 32 + y, 4);
    out[0] = own;
}
