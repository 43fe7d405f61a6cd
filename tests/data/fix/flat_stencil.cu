// A vertical stencil over a tile that is stored column by column.

constexpr int W = 32;
constexpr int H = 64;

__global__ void blur_columns(const float* src, float* dst, int pitch) {
    __shared__ float column[W * H];

    const int x = threadIdx.x;
    const int left = blockIdx.x * W, top = blockIdx.y * H;
    for (int y = threadIdx.y; y < H; y += blockDim.y)
        column[x * H + y] = src[(top + y) * pitch + left + x];
    __syncthreads();
    for (int y = threadIdx.y; y < H; y += blockDim.y) {
        const int above = max(y - 1, 0), below = min(y + 1, H - 1);
        dst[(top + y) * pitch + left + x] =
            0.25f * column[x * H + above] + 0.5f * column[x * H + y] + 0.25f * column[x * H + below];
    }
}
