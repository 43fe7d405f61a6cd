// Two warps fill two buffers, two warps read them: named barriers tell when a buffer is full, and when it is empty.
constexpr int kThreads = 128, kHalf = 64, kItems = 8;

__device__ void sync(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ void arrive(int barrier, int threads) {
    asm volatile("bar.arrive %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
}

extern "C" __global__ void kernel(const float *in, float *out) {
    __shared__ float buffer[2][kHalf];
    const int t = threadIdx.x % kHalf;
    const float *from = in + blockIdx.x * kItems * kHalf;
    if (threadIdx.x < kHalf) {
        for (int item = 0; item < kItems; ++item) {
            const int now = item % 2;
            if (item >= 2) {
                sync(3 + now, kThreads);
            }
            buffer[now][t] = from[item * kHalf + t];
            arrive(1 + now, kThreads);
        }
    } else {
        float sum = 0;
        for (int item = 0; item < kItems; ++item) {
            const int now = item % 2;
            sync(1 + now, kThreads);
            sum += buffer[now][kHalf - 1 - t] * (item + 1);
            if (item + 2 < kItems) {
                arrive(3 + now, kThreads);
            }
        }
        out[blockIdx.x * kHalf + t] = sum;
    }
}
