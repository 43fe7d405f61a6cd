// A bitonic sort: which lanes swap depends on the data, which are known here.
extern "C" __global__ void bitonic(const unsigned *in, unsigned *out) {
    __shared__ unsigned s[128];
    const int t = threadIdx.x;
    s[t] = in[t] ^ blockIdx.x;
    s[t + 64] = in[t + 64] ^ blockIdx.x;
    for (int size = 2; size <= 128; size *= 2) {
        for (int step = size / 2; step > 0; step /= 2) {
            __syncthreads();
            const int i = 2 * t - (t & (step - 1));
            const unsigned a = s[i], b = s[i + step];
            if ((a > b) == ((i & size) == 0)) {
                s[i] = b;
                s[i + step] = a;
            }
        }
    }
    __syncthreads();
    out[blockIdx.x * 128 + t] = s[t];
    out[blockIdx.x * 128 + t + 64] = s[t + 64];
}
