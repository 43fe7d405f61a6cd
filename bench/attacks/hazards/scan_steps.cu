// Inclusive scan of 256 numbers in log2 steps between two buffers (Hillis and Steele).
constexpr int kThreads = 256;

extern "C" __global__ void kernel(const float *in, float *out) {
    __shared__ float buffer[2][kThreads];
    const int t = threadIdx.x, at = blockIdx.x * kThreads + t;
    int now = 0;
    buffer[now][t] = in[at];
    __syncthreads();
    for (int step = 1; step < kThreads; step *= 2) {
        float x = buffer[now][t];
        if (t >= step) {
            x += buffer[now][t - step];
        }
        now = 1 - now;
        buffer[now][t] = x;
        __syncthreads();
    }
    out[at] = buffer[now][kThreads - 1 - t];
}
