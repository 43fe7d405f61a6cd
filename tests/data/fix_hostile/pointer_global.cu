// flat; refused: where it is not followed|outside of functions
__device__ const float *p;  // WRONG
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    p = t;
    out[y * 32 + x] = p[x * 32 + y];
}
__global__ void other(const float *in) { p = in; }
