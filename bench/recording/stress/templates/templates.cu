// A C++ kernel, instantiated twice in one file: the layout is a template's argument.
template <int pitch, int bits> struct Layout {
    static __device__ int at(int row, int column) { return row * pitch + (column ^ (row & ((1 << bits) - 1))); }
};

namespace stress {

template <class L, int rows> __global__ void turn(const unsigned *in, unsigned *out) {
    __shared__ unsigned s[rows * 40];
    const int t = threadIdx.x;
    for (int i = t; i < rows * 32; i += 64) {
        s[L::at(i / 32, i % 32)] = in[i];
    }
    __syncthreads();
    for (int i = t; i < rows * 32; i += 64) {
        out[blockIdx.x * rows * 32 + i] = s[L::at(i % rows, i / rows)];
    }
}

template __global__ void turn<Layout<32, 0>, 16>(const unsigned *, unsigned *);
template __global__ void turn<Layout<36, 3>, 16>(const unsigned *, unsigned *);

} // namespace stress
