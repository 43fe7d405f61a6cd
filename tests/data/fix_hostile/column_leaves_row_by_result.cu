// flat; refused: with another shifts[i], it may leave its row
__device__ int shifts[32];
__device__ int shift(int i) {
    int twice = 0;
    twice += 2;
    return shifts[i] * twice;
}
__global__ void k(const float *in, float *out) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = t[(x % 31) * 32 + y + shift(x)];  // WRONG
}
