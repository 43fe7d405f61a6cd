// The transpose again, with the tile as one long array.

extern "C" __global__ void transpose_flat(const float *in, float *out, int width, int height) {
    __shared__ float tile[32 * 32];

    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    if (x < width && y < height) {
        tile[threadIdx.y * 32 + threadIdx.x] = in[y * width + x];
    }
    __syncthreads();
    const int u = blockIdx.y * 32 + threadIdx.x, v = blockIdx.x * 32 + threadIdx.y;
    if (u < height && v < width) {
        out[v * height + u] = tile[threadIdx.x * 32 + threadIdx.y];
    }
}
