// Rotation by a number of words that the launch gives, through dynamic shared memory of a size that it gives too.
extern __shared__ unsigned tile[];

extern "C" __global__ void rotate(const unsigned *in, unsigned *out, int rows, int columns, int by) {
    const int t = threadIdx.x, all = rows * columns;
    for (int i = t; i < all; i += blockDim.x) {
        const int row = i / columns, column = i % columns;
        tile[row * columns + (column + row * by) % columns] = in[i];
    }
    __syncthreads();
    for (int i = t; i < all; i += blockDim.x) {
        const int row = i % rows, column = i / rows;
        out[blockIdx.x * all + i] = tile[row * columns + (column + row * by) % columns];
    }
}
