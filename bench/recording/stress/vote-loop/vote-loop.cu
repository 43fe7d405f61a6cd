// A loop that a warp leaves when all of its lanes are through.
extern "C" __global__ void vote_loop(const unsigned *in, unsigned *out) {
    __shared__ unsigned s[1024];
    const int t = threadIdx.x;
    for (int i = t; i < 1024; i += 64) {
        s[i] = in[i];
    }
    __syncthreads();
    unsigned n = t * 3 + blockIdx.x + 1, x = 0;
    while (__any_sync(0xffffffffu, n != 1)) {
        if (n != 1) {
            x += s[n & 1023];
            n = n % 2 ? n * 3 + 1 : n / 2;
        }
    }
    out[blockIdx.x * 64 + t] = x;
}
