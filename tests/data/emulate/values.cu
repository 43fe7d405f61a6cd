// out[i] = fN(i, n) of values.h. values.txt is what values.cpp, compiled by g++, says that comes to.
#define HD __device__
#define NI __noinline__
#include "values.h"
#define X(N) extern "C" __global__ void k##N(int* out, int n) { int t = blockIdx.x * blockDim.x + threadIdx.x; out[t] = f##N(t, n); }
ALL
