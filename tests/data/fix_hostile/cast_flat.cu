// padding; written: reinterpret_cast<const float *>(t)[row * 33 + x]
__global__ void k(const float *in, float *out, int row) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = t[x][y] + reinterpret_cast<const float *>(t)[row * 32 + x];
}
