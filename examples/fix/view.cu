// Sums of columns; the tile is read through a view, as a library would.

struct View {
    const float *data;
    int pitch;
    __device__ float at(int row, int column) const { return data[row * pitch + column]; }
};

__global__ void columns(const float *in, float *out) {
    __shared__ float tile[32][32];
    for (int row = threadIdx.y; row < 32; row += 4) tile[row][threadIdx.x] = in[(blockIdx.x * 32 + row) * 32 + threadIdx.x];
    __syncthreads();

    View view;
    view.data = &tile[0][0];
    view.pitch = 32;
    float sum = 0;
    for (int c = threadIdx.y; c < 32; c += 4) sum += view.at(threadIdx.x, c);
    atomicAdd(&out[blockIdx.x * 32 + threadIdx.x], sum);
}
