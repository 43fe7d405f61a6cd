// rows; refused: may have effects
struct C { int n; __device__ operator int() { return n++; } };  // WRONG
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    C c{x};
    out[y * 32 + x] = t[c][y];
}
