// Where an element of a tile is, by its row and column, in elements: policies that a kernel is given.
#pragma once

namespace places {

template <int columns> struct Rows {
    static constexpr int kPitch = columns;
    static __device__ constexpr int size(int rows) { return rows * columns; }
    static __device__ constexpr int at(int row, int column) { return row * columns + column; }
};

// Only 16 of 32 rows differ: half of the conflict is left.
template <int columns> struct Halved {
    static __device__ constexpr int size(int rows) { return rows * columns; }
    static __device__ constexpr int at(int row, int column) { return row * columns + (column ^ (row & 15)); }
};

template <int columns> struct Mixed {
    static __device__ constexpr int size(int rows) { return rows * columns; }
    static __device__ constexpr int at(int row, int column) { return row * columns + (column ^ (row & 31)); }
};

template <int width> struct Longer {
    static __device__ constexpr int size(int height) { return height * (width + 1); }
    static __device__ constexpr int at(int r, int c) { return r * (width + 1) + c; }
};

// Another interface: no kernel can be given it in place of the others.
template <int columns> struct Flat {
    static __device__ constexpr int at(int index) { return index; }
};

template <int columns, class T> struct Typed {
    static __device__ constexpr int size(int rows) { return rows * columns; }
    static __device__ constexpr int at(int row, int column) { return row * columns + column; }
};

} // namespace places
