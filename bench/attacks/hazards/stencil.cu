// Three steps of a 1D stencil of radius 2 on a tile with a halo, between two buffers.
constexpr int kThreads = 128, kRadius = 2, kSteps = 3, kHalo = kRadius * kSteps, kWide = kThreads + 2 * kHalo;

extern "C" __global__ void kernel(const float *in, float *out) {
    __shared__ float a[kWide];
    __shared__ float b[kWide];
    const int t = threadIdx.x, first = blockIdx.x * kThreads;
    a[t] = in[first + t];
    if (t < 2 * kHalo) {
        a[kThreads + t] = in[first + kThreads + t];
    }
    __syncthreads();
    float *from = a, *to = b;
    for (int step = 1; step <= kSteps; ++step) {
        for (int i = t + step * kRadius; i < kWide - step * kRadius; i += kThreads) {
            to[i] = from[i - 2] + 2 * from[i - 1] - from[i] + from[i + 1] / 2 + from[i + 2] / 4;
        }
        __syncthreads();
        float *other = from;
        from = to;
        to = other;
    }
    out[first + t] = from[t + kHalo];
}
