// Scores of 32 queries against 32 keys of 64 floats each: three arrays in dynamic shared memory.

template <int D>
__device__ void scores_of(const float* q_in, const float* k_in, float* s_out) {
    extern __shared__ float pool[];
    float* q = pool;
    float* k = q + 32 * D;
    float* s = k + 32 * D;

    const int t = threadIdx.x;
    for (int i = t; i < 32 * D; i += 256) {
        q[i] = q_in[blockIdx.x * 32 * D + i];
        k[i] = k_in[blockIdx.x * 32 * D + i];
    }
    __syncthreads();
    const int lane = t % 32, warp = t / 32;
    for (int r = warp; r < 32; r += 8) {
        float dot = 0.f;
        for (int d = 0; d < D; ++d) dot += q[r * D + d] * k[lane * D + d];
        s[r * 32 + lane] = dot;
    }
    __syncthreads();
    for (int i = t; i < 32 * 32; i += 256) s_out[blockIdx.x * 1024 + i] = s[i];
}

__global__ void scores(const float* q, const float* k, float* s) { scores_of<64>(q, k, s); }
