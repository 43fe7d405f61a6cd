// Atomics that the compiler makes loops of: how often they go round is the hardware's.
extern "C" __global__ void atomics_spin(unsigned *out) {
    __shared__ float sum[8];
    __shared__ unsigned long long wide[4];
    __shared__ unsigned best;
    const int t = threadIdx.x;
    if (t < 8) {
        sum[t] = 0.0f;
    }
    if (t < 4) {
        wide[t] = 0;
    }
    best = 0;
    __syncthreads();
    atomicAdd(&sum[t % 8], 1.0f);
    atomicMax(&wide[t % 4], static_cast<unsigned long long>(t));
    unsigned seen = best;
    while (seen < t) {
        const unsigned was = atomicCAS(&best, seen, t);
        if (was == seen) {
            break;
        }
        seen = was;
    }
    __syncthreads();
    out[blockIdx.x * 64 + t] = static_cast<unsigned>(sum[t % 8]) + static_cast<unsigned>(wide[t % 4]) + best;
}
