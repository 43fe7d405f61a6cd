// Both sides of a branch access shared memory, each with a stride of its own; lanes part by parity and by warp.
extern "C" __global__ void if_else(const unsigned *in, unsigned *out) {
    __shared__ unsigned s[1024];
    const int t = threadIdx.x;
    for (int i = t; i < 1024; i += 128) {
        s[i] = in[i];
    }
    __syncthreads();
    volatile unsigned *v = s;
    unsigned x = 0;
    if (t % 2) {
        x = v[t * 32 % 1024] + 1;
        x += v[t * 8 % 1024];
    } else {
        x = v[t * 3];
    }
    if (t < 40) {
        x += v[t * 2];
    } else if (t < 77) {
        x += v[t * 16 % 1024];
    } else {
        x ^= v[1023 - t];
    }
    out[blockIdx.x * 128 + t] = x;
}
