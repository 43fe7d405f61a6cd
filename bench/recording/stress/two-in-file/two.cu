// Two kernels, and a device function that both call, in one file.
static __device__ unsigned turned(const unsigned *s, int t, int stride) {
    return s[t * stride % 1024] + 1;
}

extern "C" __global__ void two_first(const unsigned *in, unsigned *out) {
    __shared__ unsigned s[1024];
    for (int i = threadIdx.x; i < 1024; i += 64) {
        s[i] = in[i];
    }
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = turned(s, threadIdx.x, 17);
}

extern "C" __global__ void two_second(const unsigned *in, unsigned *out) {
    __shared__ unsigned before[100], s[1024];
    before[threadIdx.x] = 0;
    for (int i = 1023 - threadIdx.x; i >= 0; i -= 64) {
        s[i ^ 5] = in[i ^ 5];
    }
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = turned(s, threadIdx.x, 17) + before[threadIdx.x ^ 1];
}
