#pragma once

template <typename T>
__device__ void turned(T (&tile)[32][32], T *out) {
    out[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
