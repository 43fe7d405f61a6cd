// flat; refused: are the same dynamic shared memory
__device__ float peek(int i) { extern __shared__ float u[]; return u[i]; }  // WRONG
__global__ void k(const float *in, float *out, int flag) {
    extern __shared__ float t[];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = t[x * 32 + y];
    if (flag) out[1] = peek(77);
}
