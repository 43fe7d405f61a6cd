// C = A B, 64 x 64 of fp32 a block by 16 x 16 threads, tiles of 16 in k: load, wait, multiply, wait.
constexpr int kN = 128, kTile = 16;

extern "C" __global__ void kernel(const float *in, float *out) {
    __shared__ float a[kTile][kTile];
    __shared__ float b[kTile][kTile + 1];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * kTile + y, column = blockIdx.x * kTile + x;
    float sum = 0;
    for (int k = 0; k < kN; k += kTile) {
        a[y][x] = in[row * kN + k + x];
        b[y][x] = in[kN * kN + (k + y) * kN + column];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kTile; ++i) {
            sum += a[y][i] * b[i][x];
        }
        __syncthreads();
    }
    out[row * kN + column] = sum;
}
