// Row maxima; the size of the tile is a template parameter of a struct that the kernel uses.

template <int Rows_, int Columns_>
struct Shape {
    static constexpr int Rows = Rows_;
    static constexpr int Columns = Columns_;
};

template <class S>
__global__ void row_maxima(const int *in, int *most) {
    __shared__ int tile[S::Rows][S::Columns];
    const int t = threadIdx.x;
    for (int r = 0; r < S::Rows; ++r)
        for (int c = t; c < S::Columns; c += S::Rows)
            tile[r][c] = in[(blockIdx.x * S::Rows + r) * S::Columns + c];
    __syncthreads();
    int best = tile[t][0];
    for (int c = 1; c < S::Columns; ++c) best = max(best, tile[t][c]);
    most[blockIdx.x * S::Rows + t] = best;
}

template __global__ void row_maxima<Shape<64, 128>>(const int *, int *);
