// padding; refused: the row's length is not to be seen|points between the starts of rows|with another n, it may leave its row
__global__ void k(const float *in, float *out, int n) {
    __shared__ float t[32 * 32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    const float *p = t + n;  // WRONG
    out[y * 32 + x] = p[x % 20 * 32 + y];
}
