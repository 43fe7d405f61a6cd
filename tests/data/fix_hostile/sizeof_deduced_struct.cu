// padding; refused: changes with the tile's layout|cannot be followed
struct S { float a[32][32]; };
template <class T> __device__ int bytes(T &s) { return s.a[0][0] > 2 ? sizeof(T) : 0; }  // WRONG
__global__ void k(const float *in, float *out, int flag) {
    __shared__ S s;
    const int x = threadIdx.x, y = threadIdx.y;
    s.a[y][x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = s.a[x][y];
    if (flag) out[bytes(s)] = 1;
}
