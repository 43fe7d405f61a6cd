// Layout policies: where each unit of a tile goes in shared memory.
//
// A row of a tile is `row_bytes` long, a whole number of 128-byte bank rows, and is made of units of `unit_bytes`:
// what a lane loads or stores at once, 16 bytes for ldmatrix and cp.async. A policy has two functions:
// `at(row, unit)` returns the byte offset of a unit, `bytes(rows)` the size of a tile with that many rows.
// Variants of a kernel differ in the policy that they name and in nothing else.
#pragma once

#include <cstdint>

namespace layout {

constexpr int kBankRowBytes = 128; // one row of all 32 banks, 4 bytes each
constexpr int kChunkBytes = 16;

// No swizzle: a column of units is in the same banks in every row.
template <int row_bytes, int unit_bytes = kChunkBytes> struct RowMajor {
    static __device__ constexpr int bytes(int rows) { return rows * row_bytes; }
    static __device__ __forceinline__ constexpr int at(int row, int unit) {
        return row * row_bytes + unit * unit_bytes;
    }
};

// One unit of padding after each row: every row starts one unit further along the banks.
template <int row_bytes, int unit_bytes = kChunkBytes> struct Padded {
    static __device__ constexpr int bytes(int rows) { return rows * (row_bytes + unit_bytes); }
    static __device__ __forceinline__ constexpr int at(int row, int unit) {
        return row * (row_bytes + unit_bytes) + unit * unit_bytes;
    }
};

// The unit index XORed with the row index, within each bank row. A column of units then covers all banks. XOR with a
// constant is a permutation, so units never collide and no byte is wasted.
template <int row_bytes, int unit_bytes = kChunkBytes> struct XorSwizzle {
    static __device__ constexpr int bytes(int rows) { return rows * row_bytes; }
    static __device__ __forceinline__ constexpr int at(int row, int unit) {
        return row * row_bytes + (unit ^ (row & (kBankRowBytes / unit_bytes - 1))) * unit_bytes;
    }
};

// A mistake on purpose: the mask takes only bits 2 and 3 of the row index. Of the 8 rows that ldmatrix reads together,
// 4 at a time are XORed with the same value, so the 8-way conflict only drops to 4-way.
template <int row_bytes, int unit_bytes = kChunkBytes> struct HalfSwizzle {
    static __device__ constexpr int bytes(int rows) { return rows * row_bytes; }
    static __device__ __forceinline__ constexpr int at(int row, int unit) {
        return row * row_bytes + (unit ^ ((row & 0b1100) >> 2)) * unit_bytes;
    }
};

// XorSwizzle with an addition: each row is rotated by its index; the carry out of the bank row is masked off.
template <int row_bytes, int unit_bytes = kChunkBytes> struct AddSwizzle {
    static constexpr int kMask = kBankRowBytes / unit_bytes - 1;
    static __device__ constexpr int bytes(int rows) { return rows * row_bytes; }
    static __device__ __forceinline__ constexpr int at(int row, int unit) {
        return row * row_bytes + ((unit & ~kMask) | ((unit + row) & kMask)) * unit_bytes;
    }
};

// The layout that TMA writes with CU_TENSOR_MAP_SWIZZLE_<span>B, if the tile is aligned to 1024 bytes: boxes of `rows`
// rows of `span` bytes, back to back. In a box the 16-byte chunk index is XORed with the bank row index, modulo the
// chunks in a row of the box: at most address bits 4 to 6, XORed with bits 7 to 9.
template <int span, int rows> struct TmaSwizzle {
    static constexpr int kChunks = span / kChunkBytes;
    static __device__ __forceinline__ constexpr int at(int row, int chunk) {
        const int bank_row = row * span / kBankRowBytes;
        return chunk / kChunks * (rows * span) + row * span + ((chunk ^ bank_row) & (kChunks - 1)) * kChunkBytes;
    }
};

// Any Latin square works, even one that no XOR and no addition produces: here a 4x4 square nested into itself, then
// into the 2x2 square. It costs a lookup in a 1 KB table.
struct Square {
    uint8_t place[32][32]; // [row][unit]

    constexpr Square() : place() {
        constexpr uint8_t four[4][4] = {{3, 2, 0, 1}, {0, 1, 2, 3}, {1, 0, 3, 2}, {2, 3, 1, 0}};
        for (int row = 0; row < 32; ++row) {
            for (int unit = 0; unit < 32; ++unit) {
                place[row][unit] = 8 * four[row / 8][unit / 8] + 2 * four[row / 2 % 4][unit / 2 % 4] +
                                   (row % 2 ^ unit % 2);
            }
        }
    }
};

static __device__ const Square kSquare;

template <int row_bytes, int unit_bytes> struct Sudoku {
    static_assert(row_bytes == kBankRowBytes && unit_bytes == 4, "the square has 32 rows of 32 words");
    static __device__ constexpr int bytes(int rows) { return rows * row_bytes; }
    static __device__ __forceinline__ int at(int row, int unit) {
        return row * row_bytes + kSquare.place[row & 31][unit] * unit_bytes;
    }
};

} // namespace layout
