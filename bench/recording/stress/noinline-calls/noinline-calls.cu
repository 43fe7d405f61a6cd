// Functions that stay functions, called from both sides of branches and from each other.
__device__ __noinline__ unsigned pick(const unsigned *s, int t, int stride) { return s[t * stride & 511]; }

__device__ __noinline__ unsigned both(const unsigned *s, int t) {
    unsigned x = pick(s, t, 2);
    if (t & 4) {
        x += pick(s, t + 1, 8);
    }
    return x;
}

extern "C" __global__ void noinline_calls(const unsigned *in, unsigned *out) {
    __shared__ unsigned s[512];
    const int t = threadIdx.x;
    for (int i = t; i < 512; i += 64) {
        s[i] = in[i];
    }
    __syncthreads();
    unsigned x;
    if (t % 3 == 0) {
        x = pick(s, t, 5);
    } else {
        x = both(s, t) + 1;
    }
    out[blockIdx.x * 64 + t] = x + both(s, 63 - t);
}
