#define AT(y, x) tile[y][x]
__global__ void k(const float *in, float *out, int odd) {
    __shared__ float tile[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    const unsigned b = blockIdx.x;
    AT(y, x ^ b % 4) = in[b * 1024 + y * 32 + x];
    __syncthreads();
    out[b * 1024 + y * 32 + x] = AT(x, y ^ b % 4);
}
