__global__ void behind(int* out, const int* in, int n) {
  const int t = threadIdx.x, others = out[64 + t];
  out[t] = t;
  __syncthreads();
  const int ticket = atomicAdd(&out[128], 1);
  out[32 + t] = out[t ^ 1] + (ticket == n) + others - out[64 + t];
}
