// padding; refused: with another flag, it may leave its row
__device__ float get(const float *p, int r, int c) { return p[r * 32 + c]; }  // WRONG
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[32 * 32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = get(t, x % 31 + 1, y - 3 * flag);
}
