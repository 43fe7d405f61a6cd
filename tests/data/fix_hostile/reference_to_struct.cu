// rows; refused: as a whole|may also be
struct S { float a[32][32]; };
__global__ void k(const float *in, float *out, int flag) {
    __shared__ S s;
    const int x = threadIdx.x, y = threadIdx.y;
    s.a[y][x] = in[y * 32 + x];
    __syncthreads();
    const S &r = flag ? *(const S *)in : s;  // WRONG
    out[y * 32 + x] = r.a[x][y];
}
