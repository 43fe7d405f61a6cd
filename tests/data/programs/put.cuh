// Included by columns.cu: like set.cuh's, its store stands on line 8.
#pragma once




__device__ void put(float *out, int n, int column, int row, float value) {
    out[row * n + column] = value;
}
