// C = A B^T with both tiles carved out of dynamic shared memory.

constexpr int kM = 32, kN = 32, kK = 32;

__global__ void carved(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int n) {
    extern __shared__ float smem[];
    float* a = smem;            // kM x kK
    float* b = smem + kM * kK;  // kN x kK

    const int tx = threadIdx.x, ty = threadIdx.y;
    float acc[4] = {};
    for (int k0 = 0; k0 < n; k0 += kK) {
        for (int i = 0; i < 4; ++i) {
            a[(ty + 8 * i) * kK + tx] = A[(blockIdx.y * kM + ty + 8 * i) * n + k0 + tx];
            b[(ty + 8 * i) * kK + tx] = B[(blockIdx.x * kN + ty + 8 * i) * n + k0 + tx];
        }
        __syncthreads();
        for (int k = 0; k < kK; ++k) {
            const float right = b[tx * kK + k];
            for (int i = 0; i < 4; ++i) acc[i] += a[(ty + 8 * i) * kK + k] * right;
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) C[(blockIdx.y * kM + ty + 8 * i) * n + blockIdx.x * kN + tx] = acc[i];
}
