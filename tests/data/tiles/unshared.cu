extern "C" __global__ void unshared(const float *x, float *y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
