// padding; refused: W is deduced from the tile
template <int H, int W> __device__ float get(const float (&t)[H][W], const float *g, int r, int c) { return t[r][c] + 0 * g[r * W + c]; }  // WRONG
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = get(t, in, x, y);
}
