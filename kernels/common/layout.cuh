// Layout policies: where a 16-byte chunk of a tile lies in shared memory.
//
// A tile has rows of `row_bytes` bytes, a whole number of 128-byte laps around the 32 banks. A policy
// answers one question, `at<row_bytes>(row, chunk)`: the byte offset of the 16-byte chunk `chunk` of `row`.
// Variants of a kernel differ in the policy that they name and in nothing else.
#pragma once

namespace layout {

constexpr int kChunkBytes = 16;  // what ldmatrix reads per row and cp.async copies per thread
constexpr int kChunksPerLap = 8; // 8 chunks of 16 bytes cover the 32 banks of 4 bytes once

// Rows as they come. A column of chunks lies in one group of four banks: 8 rows, an 8-way conflict.
struct RowMajor {
    template <int row_bytes>
    static __device__ __forceinline__ constexpr int at(int row, int chunk) {
        return row * row_bytes + chunk * kChunkBytes;
    }
};

// The chunk's number XORed with the row's, within each 128-byte lap. A column of chunks visits all eight
// groups of banks; XOR with a constant is a permutation, so no chunk is lost and no byte is spent.
struct XorSwizzle {
    template <int row_bytes>
    static __device__ __forceinline__ constexpr int at(int row, int chunk) {
        return row * row_bytes + (chunk ^ (row % kChunksPerLap)) * kChunkBytes;
    }
};

} // namespace layout
