// Sums of rows, of a tile that is seen through an mdspan-like view.

template <class T>
struct View2D {
    T* data;
    int stride;
    __device__ View2D(T* first, int row) : data(first), stride(row) {}
    __device__ T& operator()(int i, int j) const { return data[i * stride + j]; }
};

__global__ void view_sums(const float* in, float* out) {
    __shared__ float buffer[64 * 32];
    View2D<float> tile(buffer, 32);
    const int t = threadIdx.x;
    for (int r = 0; r < 64; r += 2) tile(r + t / 32, t % 32) = in[(blockIdx.x * 64 + r + t / 32) * 32 + t % 32];
    __syncthreads();
    float sum = 0;
    for (int c = 0; c < 32; ++c) sum += tile(t, c);
    out[blockIdx.x * 64 + t] = sum;
}
