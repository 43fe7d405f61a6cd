// padding; refused: S is used where it cannot be followed|elsewhere
struct S { float a[32][32]; };
__global__ void k(const float *in, float *out, int flag) {
    __shared__ S s;
    const int x = threadIdx.x, y = threadIdx.y;
    s.a[y][x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = s.a[x][y];
    if (flag) out[1] = ((const S *)in)->a[1][2];  // WRONG
}
