// An array of each thread's own, indexed at run time, holds the addresses.
extern "C" __global__ void local_array(const unsigned *in, unsigned *out, int turn) {
    __shared__ unsigned s[1024];
    const int t = threadIdx.x;
    int place[8];
    for (int i = 0; i < 8; ++i) {
        place[(i * 3 + t) & 7] = (t * 9 + i * 77) & 1023;
    }
    for (int i = t; i < 1024; i += 64) {
        s[i] = in[i];
    }
    __syncthreads();
    unsigned x = 0;
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
        x = 3 * x + s[place[(turn * i + t / 2) & 7]];
    }
    out[blockIdx.x * 64 + t] = x;
}
