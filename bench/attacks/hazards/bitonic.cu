// Sorts 256 numbers a block by a bitonic network.
constexpr int kCount = 256;

extern "C" __global__ void kernel(const float *in, float *out) {
    __shared__ float x[kCount];
    const int t = threadIdx.x;
    x[t] = in[blockIdx.x * kCount + t];
    __syncthreads();
    for (int length = 2; length <= kCount; length *= 2) {
        for (int apart = length / 2; apart > 0; apart /= 2) {
            const int other = t ^ apart;
            const float mine = x[t], theirs = x[other];
            __syncthreads();
            const bool smaller = ((t & length) == 0) == (t < other);
            x[t] = smaller ? fminf(mine, theirs) : fmaxf(mine, theirs);
            __syncthreads();
        }
    }
    out[blockIdx.x * kCount + t] = x[kCount - 1 - t];
}
