// flat; harmless: COLUMN is a macro without parentheses
#define COLUMN y | flag
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = t[x * 32 + y];
    out[0] = t[x * 32 + COLUMN];  // WRONG
}
