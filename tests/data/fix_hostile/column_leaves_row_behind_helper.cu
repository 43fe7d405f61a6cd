// wholly; refused: with another n, it may leave its row
__device__ float *row(float *p, int r) { return p + r * 32; }
__global__ void k(const float *in, float *out, int n) {
    __shared__ float t[32 * 32];
    const int x = threadIdx.x, y = threadIdx.y;
    row(t, y)[x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = row(t, x % 30)[y + n - 32];  // WRONG
}
