// rows; refused: evaluated twice
#define AT(r, c) t[(r)][(c)]
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    AT(y, x) = in[y * 32 + x];
    __syncthreads();
    int i = x;
    out[y * 32 + x] = AT(i++, y);  // WRONG
}
