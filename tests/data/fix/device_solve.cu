// Solves 32 lower triangular systems of 32 unknowns, one per thread: x is computed in place in shared memory.

template <int Size>
__device__ void forward(float* x, const float* lower) {
    for (int i = 0; i < Size; ++i) {
        float value = x[i];
        for (int j = 0; j < i; ++j) value -= lower[i * Size + j] * x[j];
        x[i] = value;
    }
}

__global__ void solve(const float* lower, const float* right, float* out) {
    __shared__ float matrix[32 * 32];
    __shared__ float sides[32 * 32];
    const int t = threadIdx.x;
    for (int i = t; i < 32 * 32; i += 32) {
        matrix[i] = lower[i];
        sides[i] = right[blockIdx.x * 1024 + i];
    }
    __syncthreads();
    forward<32>(sides + t * 32, matrix);
    __syncthreads();
    for (int i = t; i < 32 * 32; i += 32) out[blockIdx.x * 1024 + i] = sides[i];
}
