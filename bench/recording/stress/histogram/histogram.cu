// A histogram per warp, added up at the end; the data decide the addresses.
extern "C" __global__ void histogram(const unsigned char *in, unsigned *out, int n) {
    __shared__ unsigned bins[4][64];
    const int t = threadIdx.x;
    for (int i = t; i < 256; i += 128) {
        bins[i / 64][i % 64] = 0;
    }
    __syncthreads();
    for (int i = blockIdx.x * 128 + t; i < n; i += gridDim.x * 128) {
        atomicAdd(&bins[t / 32][in[i] & 63], 1u);
    }
    __syncthreads();
    if (t < 64) {
        out[blockIdx.x * 64 + t] = bins[0][t] + bins[1][t] + bins[2][t] + bins[3][t];
    }
}
