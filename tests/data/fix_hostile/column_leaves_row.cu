// flat; refused: with another flag, it may leave its row
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y, shift = 3 * flag;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = t[(x % 31 + 1) * 32 + y - shift];  // WRONG
}
