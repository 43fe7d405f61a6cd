// rows; refused: evaluated twice|may have effects
__device__ int next(int i) { __syncthreads(); return i; }
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    const float *row = t[next(x)];  // WRONG
    out[y * 32 + x] = row[y];
}
