// C = A B, with k in steps of 32: two stages, each of which holds a tile of A and one of B turned.
struct Stage {
    float a[32][32];
    float b[32][32];  // by column

    __device__ void fill(const float* from_a, const float* from_b, int n);
    __device__ float product(int row, int column) const {
        float sum = 0;
        for (int k = 0; k < 32; ++k) sum += a[row][k] * b[column][k];
        return sum;
    }
};

__device__ void Stage::fill(const float* from_a, const float* from_b, int n) {
    const int x = threadIdx.x, y = threadIdx.y;
    a[y][x] = from_a[y * n + x];
    b[x][y] = from_b[y * n + x];
}

__device__ float multiplied(const Stage* stage) { return stage->product(threadIdx.y, threadIdx.x); }

__global__ void class_stages(const float* a, const float* b, float* c, int n) {
    __shared__ Stage stages[2];
    const int row = blockIdx.y * 32, column = blockIdx.x * 32;
    float sum = 0;

    stages[0].fill(a + row * n, b + column, n);
    for (int k = 0; k < n; k += 32) {
        __syncthreads();
        Stage& next = stages[(k / 32 + 1) % 2];
        if (k + 32 < n) next.fill(a + row * n + k + 32, b + (k + 32) * n + column, n);
        sum += multiplied(&stages[k / 32 % 2]);
    }
    c[(row + threadIdx.y) * n + column + threadIdx.x] = sum;
}
