// flat; refused: handed to swap|is also
template <class T> __device__ void swap(T &a, T &b) { T c = a; a = b; b = c; }
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    const float *p = t, *q = in;
    if (flag) swap(p, q);  // WRONG
    out[y * 32 + x] = p[x * 32 + y];
}
