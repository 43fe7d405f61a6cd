__global__ void sum_unknown(float* y) { y[threadIdx.x] = 1.f; }
