// flat; written: t[y * 32 + (x ^ (y & 31))]
__global__ void k(const float *in, float *out, int n) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < min(n, 32); ++i) {
        sum += t[x * 32 + i] + t[x * 32 + (i + n & 31)] + t[x * 32 + max(0, min(n - i, 31))];
    }
    for (int step = 0; step < n; ++step) {
        for (int i = 0; i < 32; ++i) {
            sum += t[x * 32 + i];
        }
    }
    out[y * 32 + x] = sum;
}
