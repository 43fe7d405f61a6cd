// C = A B in fp32, the next tiles in registers during the math and in a second buffer: one barrier a tile.
constexpr int kN = 128, kTile = 16;

extern "C" __global__ void kernel(const float *in, float *out) {
    __shared__ float a[2][kTile][kTile + 1];
    __shared__ float b[2][kTile][kTile + 1];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * kTile + y, column = blockIdx.x * kTile + x;
    const float *from = in + row * kN + x, *other = in + kN * kN + y * kN + column;
    a[0][y][x] = from[0];
    b[0][y][x] = other[0];
    __syncthreads();
    float sum = 0;
    int now = 0;
    for (int k = kTile; k <= kN; k += kTile) {
        float next_a = 0, next_b = 0;
        if (k < kN) {
            next_a = from[k];
            next_b = other[k * kN];
        }
#pragma unroll
        for (int i = 0; i < kTile; ++i) {
            sum += a[now][y][i] * b[now][i][x];
        }
        now = 1 - now;
        if (k < kN) {
            a[now][y][x] = next_a;
            b[now][y][x] = next_b;
        }
        __syncthreads();
    }
    out[row * kN + column] = sum;
}
