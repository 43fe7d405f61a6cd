// Softmax over rows of 64 numbers. A block has 64 rows; every thread handles the row with its own number.

#include <math.h>

static constexpr int kRows = 64, kColumns = 64;

__global__ void softmax64(const float* __restrict__ scores, float* __restrict__ weights) {
  __shared__ float row[kRows * kColumns];
  const float* mine = scores + blockIdx.x * kRows * kColumns;

  for (int i = threadIdx.x; i < kRows * kColumns; i += blockDim.x) row[i] = mine[i];
  __syncthreads();

  float most = -INFINITY;
  for (int c = 0; c < kColumns; ++c) most = fmaxf(most, row[threadIdx.x * kColumns + c]);
  float sum = 0.0f;
  for (int c = 0; c < kColumns; ++c) {
    const float e = exp2f((row[threadIdx.x * kColumns + c] - most) * 1.44269504f);
    row[threadIdx.x * kColumns + c] = e;
    sum += e;
  }
  const float scale = 1.0f / sum;
  for (int c = 0; c < kColumns; ++c) row[threadIdx.x * kColumns + c] *= scale;
  __syncthreads();

  for (int i = threadIdx.x; i < kRows * kColumns; i += blockDim.x) weights[blockIdx.x * kRows * kColumns + i] = row[i];
}
