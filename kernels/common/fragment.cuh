// The row address that each lane passes to ldmatrix.
#pragma once

#include <cstdint>

// This lane's address for ldmatrix.x4 of the 16x16 block of 16-bit elements at (row, column) of a tile: lanes 0-15
// address the 16 rows of the left 8 columns, lanes 16-31 those of the right 8.
template <class Layout> __device__ __forceinline__ uint32_t fragment(uint32_t tile, int row, int column) {
    const int lane = threadIdx.x % 32;
    return tile + Layout::at(row + lane % 16, column / 8 + lane / 16);
}
