// Sums by shuffles, then over the warps through shared memory; every thread subtracts the mean.
constexpr int kThreads = 256;

__device__ float warp_sum(float x) {
    for (int step = 16; step > 0; step /= 2) {
        x += __shfl_xor_sync(0xFFFFFFFF, x, step);
    }
    return x;
}

extern "C" __global__ void kernel(const float *in, float *out) {
    __shared__ float partial[kThreads / 32];
    __shared__ float total;
    const int t = threadIdx.x;
    for (int pass = 0; pass < 3; ++pass) {
        const int at = (blockIdx.x * 3 + pass) * kThreads + t;
        const float x = in[at];
        const float sum = warp_sum(x);
        if (t % 32 == 0) {
            partial[t / 32] = sum;
        }
        __syncthreads();
        if (t < 32) {
            const float all = warp_sum(t < kThreads / 32 ? partial[t] : 0);
            if (t == 0) {
                total = all;
            }
        }
        __syncthreads();
        out[at] = x - total / kThreads;
        __syncthreads();
    }
}
