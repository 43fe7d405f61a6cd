// The usual double buffer of a GEMM: two stages, the rows of each behind each other.

constexpr int BM = 32, BN = 32, BK = 32;

__global__ void buffers_flat(const float* A, const float* B, float* C, int n) {
    __shared__ float As[2][BM * BK];
    __shared__ float Bs[2][BN * BK];
    const int tx = threadIdx.x, ty = threadIdx.y;
    auto fetch = [&](int stage, int k0) {
        for (int i = ty; i < 32; i += 8) {
            As[stage][i * BK + tx] = A[(blockIdx.y * BM + i) * n + k0 + tx];
            Bs[stage][i * BK + tx] = B[(blockIdx.x * BN + i) * n + k0 + tx];
        }
    };
    float sums[4] = {};
    fetch(0, 0);
    __syncthreads();
    int stage = 0;
    for (int k0 = 0; k0 < n; k0 += BK) {
        if (k0 + BK < n) fetch(stage ^ 1, k0 + BK);
        for (int k = 0; k < BK; k++) {
            const float b = Bs[stage][tx * BK + k];
            for (int i = 0; i < 4; i++) sums[i] += As[stage][(ty * 4 + i) * BK + k] * b;
        }
        __syncthreads();
        stage ^= 1;
    }
    for (int i = 0; i < 4; i++) C[(blockIdx.y * BM + ty * 4 + i) * n + blockIdx.x * BN + tx] = sums[i];
}
