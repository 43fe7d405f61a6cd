// Loops as long as the thread, its warp and its block say.
extern "C" __global__ void trip_counts(const unsigned *in, unsigned *out, int most) {
    __shared__ unsigned s[1024];
    const int t = threadIdx.x;
    for (int i = t; i < 1024; i += blockDim.x) {
        s[i] = in[i];
    }
    __syncthreads();
    unsigned x = t;
#pragma unroll 1
    for (int i = 0; i < (t & 7) + static_cast<int>(blockIdx.x); ++i) {
#pragma unroll 1
        for (int j = t / 32; j < most - i; ++j) {
            x = x * 5 + s[(t * 2 + i * 96 + j * 33) & 1023];
        }
    }
    out[blockIdx.x * blockDim.x + t] = x;
}
