// rows; refused: may have effects
__device__ int count;
__device__ int next(int i) { atomicAdd(&count, 1); return i; }
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = t[next(x)][y];  // WRONG
}
