// The largest 16 values of each thread, in a sorted list of its own.

constexpr int kLargest = 16, kThreads = 64;

__global__ void lists_topk(const float* in, float* out, int count) {
    __shared__ float lists[kThreads][kLargest];
    float* list = lists[threadIdx.x];
    for (int i = 0; i < kLargest; ++i) list[i] = -1e30f;
    for (int i = 0; i < count; ++i) {
        float value = in[(blockIdx.x * count + i) * kThreads + threadIdx.x];
#pragma unroll 1
        for (int j = 0; j < kLargest; ++j) {
            const float kept = list[j];
            list[j] = fmaxf(kept, value);
            value = fminf(kept, value);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kThreads * kLargest; i += kThreads)
        out[blockIdx.x * kThreads * kLargest + i] = lists[i / kLargest][i % kLargest];
}
