// out = in^T, an n x n matrix of floats, through 32x32 tiles of shared memory: rows go in, columns come out.
//
// The tile keeps both global accesses coalesced; in shared memory one of the two accesses then has to go down a
// column, 32 lanes in the same bank unless the layout spreads them out.
#pragma once

#include "layout.cuh"

namespace transpose {

constexpr int kTile = 32;
constexpr int kThreadRows = 8;
constexpr int kSteps = kTile / kThreadRows; // a block of 32x8 threads moves a tile in 4 steps
constexpr int kRowBytes = kTile * sizeof(float);

// Grid (ceil(n / 32), ceil(n / 32)), 32x8 threads; a thread moves 4 elements.
template <class Layout> __device__ __forceinline__ void transpose(const float *in, float *out, int n) {
    __shared__ alignas(128) char tile[Layout::bytes(kTile)];
    const int lane = threadIdx.x;
    const int left = blockIdx.x * kTile;
    const int top = blockIdx.y * kTile;

    int put[kSteps], take[kSteps]; // offsets in the tile, computed while the loads are in flight
    float x[kSteps];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        const int row = threadIdx.y + step * kThreadRows;
        put[step] = Layout::at(row, lane);
        take[step] = Layout::at(lane, row);
        if (top + row < n && left + lane < n) {
            x[step] = in[static_cast<size_t>(top + row) * n + left + lane];
        }
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        *reinterpret_cast<float *>(tile + put[step]) = x[step];
    }
    __syncthreads();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        const int column = threadIdx.y + step * kThreadRows;
        if (left + column < n && top + lane < n) {
            out[static_cast<size_t>(left + column) * n + top + lane] =
                *reinterpret_cast<const float *>(tile + take[step]);
        }
    }
}

} // namespace transpose
