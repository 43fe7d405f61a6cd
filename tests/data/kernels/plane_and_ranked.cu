#include <cooperative_groups.h>
#include <cuda_bf16.h>
extern __shared__ char raw[];
struct Config { const float* weights; int rows; };
extern "C" __global__ void __launch_bounds__(512) plane(const __nv_bfloat16* __restrict__ in, float2 *out, Config c,
                                                        long long stride, double scale, uint3 corner) {
  raw[threadIdx.y * 32 + threadIdx.x] = 1;
  __syncthreads();
  out[blockIdx.y * stride] = make_float2(__bfloat162float(in[0]) * scale + c.rows + corner.x, raw[31 - threadIdx.x]);
}
__global__ void ranked(int** table) {
  auto block = cooperative_groups::this_thread_block();
  table[0][block.thread_rank()] = block.size();
}
