// What every kernel here has in common: FIXED chooses one of two layouts of its shared memory, and nothing else.
#pragma once

#include <cuda_fp16.h>

#ifndef FIXED
#define FIXED 0 // as programs are often written; 1: with one change of the layout
#endif

constexpr bool kFixed = FIXED;

// The pitch of rows of so many elements.
__host__ __device__ constexpr int pitch(int row, int pad = 1) { return kFixed ? row + pad : row; }

// The place of an element, with one skipped after every 32 if fixed.
__device__ __forceinline__ int skewed(int index) { return kFixed ? index + index / 32 : index; }
