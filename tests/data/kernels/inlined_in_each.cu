// Two kernels of one unit; each line that calls into `turned` is the kernel's own.
__device__ float turned(float* tile, int x) { return tile[x ^ 5] + 1; }
__global__ void first(float* out) {
  __shared__ float tile[32];
  tile[threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = turned(tile, threadIdx.x);
}
__global__ void second(float* out) {
  __shared__ float tile[32];
  tile[threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = 2 * turned(tile, threadIdx.x);
}
