// Addresses that come out of shuffles.
extern "C" __global__ void shuffles(const unsigned *in, unsigned *out) {
    __shared__ unsigned s[1024];
    const int t = threadIdx.x;
    const unsigned all = 0xffffffffu;
    for (int i = t; i < 1024; i += 64) {
        s[i] = in[i];
    }
    __syncthreads();
    const int swapped = __shfl_xor_sync(all, t * 3, 5);
    const int above = __shfl_up_sync(all, t * t, 3);
    const int below = __shfl_down_sync(all, t * 16, 7, 16);
    const int from = __shfl_sync(all, t * 8 + 1, (t * 11) & 31);
    const unsigned x = s[swapped & 1023] + 3 * s[above & 1023] + 5 * s[below & 1023] + 7 * s[from & 1023];
    __syncthreads();
    s[(swapped * 4) & 1023] = 1;
    __syncthreads();
    out[blockIdx.x * 64 + t] = x + s[t * 12 & 1023] % 2;
}
