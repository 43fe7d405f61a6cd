// Exclusive scan of 512 numbers, up and down a tree in place (Blelloch).
constexpr int kThreads = 256, kCount = 2 * kThreads;

extern "C" __global__ void kernel(const float *in, float *out) {
    __shared__ float x[kCount];
    const int t = threadIdx.x;
    const float *from = in + blockIdx.x * kCount;
    x[2 * t] = from[2 * t];
    x[2 * t + 1] = from[2 * t + 1];
    int apart = 1;
    for (int pairs = kCount / 2; pairs > 0; pairs /= 2) {
        __syncthreads();
        if (t < pairs) {
            x[apart * (2 * t + 2) - 1] += x[apart * (2 * t + 1) - 1];
        }
        apart *= 2;
    }
    __syncthreads();
    if (t == 0) {
        x[kCount - 1] = 0;
    }
    for (int pairs = 1; pairs < kCount; pairs *= 2) {
        apart /= 2;
        __syncthreads();
        if (t < pairs) {
            const int left = apart * (2 * t + 1) - 1, right = apart * (2 * t + 2) - 1;
            const float before = x[left];
            x[left] = x[right];
            x[right] += before;
        }
    }
    __syncthreads();
    out[blockIdx.x * kCount + t] = x[t];
    out[blockIdx.x * kCount + t + kThreads] = x[t + kThreads];
}
