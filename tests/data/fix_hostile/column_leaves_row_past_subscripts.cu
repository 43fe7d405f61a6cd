// padding; refused: with another flag, it may leave its row
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[2][32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    *((&t[1][0][0]) + y * 32 + x) = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = *((&t[1][0][0]) + (x % 30) * 32 + y + flag * 5);  // WRONG
}
