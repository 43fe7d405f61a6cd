// flat; written: tile[r][x ^ (r & 31)]
__global__ void k(const float *in, float *out) {
    __shared__ float t[32 * 32];
    auto &tile = reinterpret_cast<float (&)[32][32]>(t);
    const int x = threadIdx.x, r = threadIdx.y;
    tile[r][x] = in[r * 32 + x];
    __syncthreads();
    out[r * 32 + x] = tile[x][r];
}
