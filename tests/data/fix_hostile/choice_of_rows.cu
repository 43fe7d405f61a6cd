// rows; refused: cell is also called with
__device__ float cell(const float (&t)[32][32], int r, int c) { return t[r][c]; }
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = cell(t, x, y);
    out[0] = cell((*reinterpret_cast<const float (*)[32][32]>((flag ? in : &t[0][0]))), x, y);  // WRONG
}
