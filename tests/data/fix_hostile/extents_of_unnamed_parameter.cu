// padding; refused: is only told the type
struct S {
    float tile[32][32];
    int tag;
};
template <class U, int H, int L> __device__ int area(U (&)[H][L]) { return H * L; }
__global__ void k(const float *in, float *out, int n) {
    __shared__ S s;
    const int x = threadIdx.x, y = threadIdx.y;
    s.tile[y][x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = s.tile[x][y];
    if (n > 40) out[0] = area(s.tile);  // WRONG
}
