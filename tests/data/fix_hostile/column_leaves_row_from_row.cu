// padding; refused: the row's length is not to be seen|with another flag
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = *(t[x % 30] + y + flag * 5);  // WRONG
}
