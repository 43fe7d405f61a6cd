// padding; refused: changes with the tile's layout
struct S { int tag; float a[32][32]; };
__global__ void k(const float *in, float *out, int flag) {
    __shared__ S s;
    const int x = threadIdx.x, y = threadIdx.y;
    s.a[y][x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = s.a[x][y];
    for (int i = 0; i < flag * (int)sizeof(decltype(s.a)); ++i) out[i] = 0;  // WRONG
}
