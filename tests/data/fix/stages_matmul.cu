// A double-buffered product of A and B^T.

#define T 16

struct Stage {
    float a[T][T];
    float b[2 * T][T];
};

__global__ void pipelined(const float* a, const float* b, float* c, int n) {
    __shared__ Stage stage[2];
    const int tx = threadIdx.x, ty = threadIdx.y; // 16 x 16
    const int row = blockIdx.y * T + ty, col = blockIdx.x * 2 * T;
    float left = 0.f, right = 0.f;

    stage[0].a[ty][tx] = a[row * n + tx];
    stage[0].b[ty][tx] = b[(col + ty) * n + tx];
    stage[0].b[ty + T][tx] = b[(col + ty + T) * n + tx];
    __syncthreads();
    for (int k0 = 0, s = 0; k0 < n; k0 += T, s ^= 1) {
        if (k0 + T < n) {
            stage[s ^ 1].a[ty][tx] = a[row * n + k0 + T + tx];
            stage[s ^ 1].b[ty][tx] = b[(col + ty) * n + k0 + T + tx];
            stage[s ^ 1].b[ty + T][tx] = b[(col + ty + T) * n + k0 + T + tx];
        }
        for (int k = 0; k < T; ++k) {
            left += stage[s].a[ty][k] * stage[s].b[tx][k];
            right += stage[s].a[ty][k] * stage[s].b[tx + T][k];
        }
        __syncthreads();
    }
    c[row * n + col + tx] = left;
    c[row * n + col + T + tx] = right;
}
