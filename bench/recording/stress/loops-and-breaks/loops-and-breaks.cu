// Nested loops that lanes leave and continue at different times.
extern "C" __global__ void loops_and_breaks(const unsigned *in, unsigned *out) {
    __shared__ unsigned s[1024];
    const int t = threadIdx.x;
    for (int i = t; i < 1024; i += 64) {
        s[i] = in[i];
    }
    __syncthreads();
    volatile unsigned *v = s;
    unsigned x = 0;
    for (int i = 0; i < 8; ++i) {
        if (i == t % 7 + 1) {
            break;
        }
        if ((t + i) % 3 == 0) {
            continue;
        }
        for (int j = i; j < 6; ++j) {
            x += v[(t * (i + 1) + j * 32) % 1024];
            if (j == (t & 3) + 2) {
                break;
            }
        }
        x ^= v[(t + i * 64) % 1024];
    }
    out[blockIdx.x * 64 + t] = x;
}
