// padding; refused: with another blockIdx.x, it may leave its row
__global__ void k(const float *in, float *out) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y, b = blockIdx.x;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    out[b * 1024 + y * 32 + x] = t[(x % 31) * 32 + y + 5 * b];  // WRONG
}
