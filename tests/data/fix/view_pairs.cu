// Products of rows of two tiles in dynamic shared memory, kept in structs that functions take.

struct Tile {
    float* data;
    int ld;
    __device__ float& at(int r, int c) { return data[r * ld + c]; }
    __device__ float get(int r, int c) const { return data[r * ld + c]; }
};

__device__ void fill(Tile tile, const float* from) {
    for (int r = threadIdx.y; r < 32; r += blockDim.y) tile.at(r, threadIdx.x) = from[r * 32 + threadIdx.x];
}

__device__ float dot(const Tile& a, const Tile& b, int r, int c) {
    float sum = 0;
    for (int k = 0; k < 32; ++k) sum += a.get(r, k) * b.get(c, k);
    return sum;
}

__global__ void view_pairs(const float* a, const float* b, float* c) {
    extern __shared__ float smem[];
    Tile first{smem, 32}, second{smem + 1024, 32};
    fill(first, a + blockIdx.x * 1024);
    fill(second, b + blockIdx.x * 1024);
    __syncthreads();
    for (int r = threadIdx.y; r < 32; r += 8) c[blockIdx.x * 1024 + r * 32 + threadIdx.x] = dot(first, second, r, threadIdx.x);
}
