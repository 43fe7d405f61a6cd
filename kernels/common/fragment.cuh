// Where a lane points ldmatrix at.
#pragma once

#include <cstdint>

// The address that this lane gives to ldmatrix.x4 for the 16x16 block of 16-bit elements at (row, column) of a tile:
// lanes 0-15 name the 16 rows of its left half, lanes 16-31 those of its right half.
template <class Layout> __device__ __forceinline__ uint32_t fragment(uint32_t tile, int row, int column) {
    const int lane = threadIdx.x % 32;
    return tile + Layout::at(row + lane % 16, column / 8 + lane / 16);
}
