// C = A B^T, both row by row, in tiles of 32 x 32.

constexpr int TILE = 32;

__global__ void matmul_nt(const float *a, const float *b, float *c, int n) {
  __shared__ float sa[TILE][TILE];
  __shared__ float sb[TILE][TILE];
  int tx = threadIdx.x, ty = threadIdx.y;
  int row = blockIdx.y * TILE + ty;
  int col = blockIdx.x * TILE + tx;
  float acc = 0.f;
  for (int k0 = 0; k0 < n; k0 += TILE) {
    sa[ty][tx] = a[row * n + k0 + tx];
    sb[ty][tx] = b[(blockIdx.x * TILE + ty) * n + k0 + tx];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE; ++k)
      acc += sa[ty][k] * sb[tx][k];   // a column of sb per warp: all 32 lanes in one bank
    __syncthreads();
  }
  c[row * n + col] = acc;
}
