// Included by columns.cu: its store of a column stands on the same line as the load of one there.
#pragma once




__device__ void put(float *out, int n, int column, int row, float value) {
    out[row * n + column] = value;
}
