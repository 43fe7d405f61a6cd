// The two trees of a sum: one whose lanes drift apart, one whose warps go idle.
extern "C" __global__ void reduction(const unsigned *in, unsigned *out) {
    __shared__ unsigned a[256], b[256];
    const int t = threadIdx.x;
    a[t] = b[t] = in[blockIdx.x * 256 + t];
    __syncthreads();
    for (int step = 1; step < 256; step *= 2) {
        const int i = 2 * step * t;
        if (i < 256) {
            a[i] += a[i + step];
        }
        __syncthreads();
    }
    for (int half = 128; half > 0; half /= 2) {
        if (t < half) {
            b[t] += b[t + half];
        }
        __syncthreads();
    }
    if (t == 0) {
        out[blockIdx.x] = a[0] ^ (b[0] * 2);
    }
}
