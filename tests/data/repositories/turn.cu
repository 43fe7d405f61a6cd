__global__ void turn(const float* x, float* y) {
  __shared__ float tile[32][32];
  int c = threadIdx.x, r = threadIdx.y;
  tile[c][r] = x[r * 32 + c];
  __syncthreads();
  y[r * 32 + c] = tile[r][c];
}
