// flat; refused: with another shift, it may leave its row
__constant__ int shift;
__global__ void k(const float *in, float *out) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = t[(x % 31) * 32 + y + shift];  // WRONG
}
