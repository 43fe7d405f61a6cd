// Sums 512 numbers a block in a tree; two sums one after the other in the same shared memory.
constexpr int kThreads = 256;

extern "C" __global__ void kernel(const float *in, float *out) {
    __shared__ float sums[kThreads];
    const int t = threadIdx.x;
    for (int pass = 0; pass < 2; ++pass) {
        const float *from = in + (2 * blockIdx.x + pass) * 2 * kThreads;
        sums[t] = from[t] + from[t + kThreads];
        __syncthreads();
        for (int half = kThreads / 2; half > 0; half /= 2) {
            if (t < half) {
                sums[t] += sums[t + half];
            }
            __syncthreads();
        }
        if (t == 0) {
            out[2 * blockIdx.x + pass] = sums[0];
        }
        __syncthreads();
    }
}
