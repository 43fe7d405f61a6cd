#include <cuda_pipeline.h>
__global__ void filled(int* out, const int* in, int n) {
  __shared__ alignas(16) int row[128];
  const int t = threadIdx.x;
  __pipeline_memcpy_async(&row[t], &in[t], 4, t < n ? 0 : 4);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  out[t] = row[127 - t];
}
