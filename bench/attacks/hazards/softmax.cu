// Softmax of rows of 512: the row in shared memory, its maximum and its sum over all warps.
constexpr int kThreads = 128, kRow = 512;

__device__ float over_warps(float x, float *partial, bool sum) {
    for (int step = 16; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(0xFFFFFFFF, x, step);
        x = sum ? x + other : fmaxf(x, other);
    }
    if (threadIdx.x % 32 == 0) {
        partial[threadIdx.x / 32] = x;
    }
    __syncthreads();
    x = partial[0];
    for (int warp = 1; warp < kThreads / 32; ++warp) {
        x = sum ? x + partial[warp] : fmaxf(x, partial[warp]);
    }
    __syncthreads();
    return x;
}

extern "C" __global__ void kernel(const float *in, float *out) {
    __shared__ float row[kRow];
    __shared__ float partial[kThreads / 32];
    for (int part = 0; part < 2; ++part) {
        const int at = (2 * blockIdx.x + part) * kRow;
        float largest = -1e30f;
        for (int i = threadIdx.x; i < kRow; i += kThreads) {
            row[i] = in[at + i];
            largest = fmaxf(largest, row[i]);
        }
        largest = over_warps(largest, partial, false);
        float sum = 0;
        for (int i = threadIdx.x; i < kRow; i += kThreads) {
            row[i] = exp2f(row[i] - largest);
            sum += row[i];
        }
        sum = over_warps(sum, partial, true);
        for (int i = threadIdx.x; i < kRow; i += kThreads) {
            out[at + i] = row[kRow - 1 - i] / sum;
        }
        __syncthreads();
    }
}
