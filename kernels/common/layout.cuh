// Layout policies: where a unit of a tile lies in shared memory.
//
// A tile has rows of `row_bytes` bytes, a whole number of 128-byte laps around the 32 banks, and its rows consist of
// units of `unit_bytes` bytes: what a lane loads or stores at once, 16 for ldmatrix and cp.async. A policy answers
// two questions: the byte offset of a unit, `at(row, unit)`, and what a tile of so many rows takes, `bytes(rows)`.
// Variants of a kernel differ in the policy that they name and in nothing else.
#pragma once

#include <cstdint>

namespace layout {

constexpr int kLapBytes = 128; // 32 banks of 4 bytes
constexpr int kChunkBytes = 16;

// Rows as they come. A column of units lies in the same banks in every row.
template <int row_bytes, int unit_bytes = kChunkBytes> struct RowMajor {
    static __device__ constexpr int bytes(int rows) { return rows * row_bytes; }
    static __device__ __forceinline__ constexpr int at(int row, int unit) {
        return row * row_bytes + unit * unit_bytes;
    }
};

// One unit of dead space after each row: the next row starts one unit further around the banks.
template <int row_bytes, int unit_bytes = kChunkBytes> struct Padded {
    static __device__ constexpr int bytes(int rows) { return rows * (row_bytes + unit_bytes); }
    static __device__ __forceinline__ constexpr int at(int row, int unit) {
        return row * (row_bytes + unit_bytes) + unit * unit_bytes;
    }
};

// The unit's number XORed with the row's, within each lap. A column of units visits every bank of the lap; XOR with
// a constant is a permutation, so no unit is lost and no byte is spent.
template <int row_bytes, int unit_bytes = kChunkBytes> struct XorSwizzle {
    static __device__ constexpr int bytes(int rows) { return rows * row_bytes; }
    static __device__ __forceinline__ constexpr int at(int row, int unit) {
        return row * row_bytes + (unit ^ (row & (kLapBytes / unit_bytes - 1))) * unit_bytes;
    }
};

// The mistake to learn from: only bits 2 and 3 of the row's number are used. Of 8 rows that ldmatrix reads together,
// four at a time get the same number, so that 4 of the 8 ways remain.
template <int row_bytes, int unit_bytes = kChunkBytes> struct HalfSwizzle {
    static __device__ constexpr int bytes(int rows) { return rows * row_bytes; }
    static __device__ __forceinline__ constexpr int at(int row, int unit) {
        return row * row_bytes + (unit ^ ((row & 0b1100) >> 2)) * unit_bytes;
    }
};

// As XorSwizzle, by addition: each row is rotated by its number, and what carries out of the lap is cut off.
template <int row_bytes, int unit_bytes = kChunkBytes> struct AddSwizzle {
    static constexpr int kMask = kLapBytes / unit_bytes - 1;
    static __device__ constexpr int bytes(int rows) { return rows * row_bytes; }
    static __device__ __forceinline__ constexpr int at(int row, int unit) {
        return row * row_bytes + ((unit & ~kMask) | ((unit + row) & kMask)) * unit_bytes;
    }
};

// As TMA lays out a tile with CU_TENSOR_MAP_SWIZZLE_<span>B, from an address that is a multiple of 8 laps: boxes of
// `rows` rows of `span` bytes, one behind the other, and in each the chunk's number XORed with that of the lap, as far
// as a row of the box has chunks. Bits 4 to 6 of the address at most, XORed with bits 7 to 9.
template <int span, int rows> struct TmaSwizzle {
    static constexpr int kChunks = span / kChunkBytes;
    static __device__ __forceinline__ constexpr int at(int row, int chunk) {
        const int lap = row * span / kLapBytes;
        return chunk / kChunks * (rows * span) + row * span + ((chunk ^ lap) & (kChunks - 1)) * kChunkBytes;
    }
};

// Any Latin square will do, such as this one, which no XOR and no addition makes: a 4x4 square, nested into itself
// and then into the one 2x2 square. It has to be looked up, in a table of 1 KB.
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
    static_assert(row_bytes == kLapBytes && unit_bytes == 4, "the square is of 32 rows and 32 words");
    static __device__ constexpr int bytes(int rows) { return rows * row_bytes; }
    static __device__ __forceinline__ int at(int row, int unit) {
        return row * row_bytes + kSquare.place[row & 31][unit] * unit_bytes;
    }
};

} // namespace layout
