// Shared atomics of integers at addresses that repeat within a warp.
extern "C" __global__ void atomics(unsigned *out) {
    __shared__ unsigned s[256];
    const int t = threadIdx.x;
    s[t] = 0;
    s[t + 128] = 1000;
    __syncthreads();
    atomicAdd(&s[t / 3], 1u);
    atomicAdd(&s[t * 2 % 64], t);
    atomicMax(&s[64 + t % 9 * 4], t * 5);
    atomicMin(&s[128 + (t & 15)], 500 - t);
    atomicOr(&s[160 + t % 2 * 32], 1u << (t & 7));
    atomicAnd(&s[225], ~(1u << (t & 3)));
    if (t % 5 == 2) {
        atomicXor(&s[230 + t % 4], t);
        atomicSub(&s[240], 3u);
    }
    __syncthreads();
    out[blockIdx.x * 256 + t] = s[t];
    out[blockIdx.x * 256 + t + 128] = s[t + 128];
}
