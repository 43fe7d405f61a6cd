// flat; refused: two may also be two.b, which
struct Two { const float *a, *b; };
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = t[x * 32 + y];
    const Two two{t, in};
    out[0] = (flag ? two.b : two.a)[x * 32 + y];  // WRONG
}
