// A prefix sum up and down a tree, its conflicts spread by padding.
static __device__ int at(int i) { return i + i / 32; }

extern "C" __global__ void scan(const unsigned *in, unsigned *out) {
    __shared__ unsigned s[264];
    const int t = threadIdx.x;
    s[at(2 * t)] = in[blockIdx.x * 256 + 2 * t];
    s[at(2 * t + 1)] = in[blockIdx.x * 256 + 2 * t + 1];
    int offset = 1;
    for (int d = 128; d > 0; d /= 2) {
        __syncthreads();
        if (t < d) {
            s[at(offset * (2 * t + 2) - 1)] += s[at(offset * (2 * t + 1) - 1)];
        }
        offset *= 2;
    }
    if (t == 0) {
        s[at(255)] = 0;
    }
    for (int d = 1; d < 256; d *= 2) {
        offset /= 2;
        __syncthreads();
        if (t < d) {
            const int i = at(offset * (2 * t + 1) - 1), j = at(offset * (2 * t + 2) - 1);
            const unsigned x = s[i];
            s[i] = s[j];
            s[j] += x;
        }
    }
    __syncthreads();
    out[blockIdx.x * 256 + 2 * t] = s[at(2 * t)];
    out[blockIdx.x * 256 + 2 * t + 1] = s[at(2 * t + 1)];
}
