#include "rows.cuh"

__global__ void member(float *out, const float *in) {
    __shared__ Rows rows;
    rows.a[threadIdx.y][threadIdx.x] = in[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = rows.a[threadIdx.x][0];
}
