// rows; written: t[turned(x)][y ^ turned(x)]
__device__ int turned(int i) { return 31 - i; }
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = t[turned(x)][y];
}
