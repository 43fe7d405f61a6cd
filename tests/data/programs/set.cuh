// Included by columns.cu: like put.cuh's, its store stands on line 8.
#pragma once




__device__ void set(float *out, int n, int column, int row, float value) {
    out[row * n + column] = value;
}
