// Refused: which elements are written depends on data.

__global__ void keep_positive(const float* in, float* out) {
    __shared__ float tile[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    tile[y][x] = 0.0f;
    const float v = in[blockIdx.x * 1024 + y * 32 + x];
    if (v > 0.0f) tile[y][x] = sqrtf(v);
    __syncthreads();
    out[blockIdx.x * 1024 + y * 32 + x] = tile[x][y];
}
