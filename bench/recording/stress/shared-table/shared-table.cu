// A table that the block computes and keeps in shared memory says where it reads there.
extern "C" __global__ void shared_table(const unsigned *in, unsigned *out) {
    __shared__ unsigned short table[256];
    __shared__ unsigned s[1024];
    const int t = threadIdx.x;
    table[t] = (t * 4 + t / 64) & 1023;
    table[t + 128] = (1023 - t * 8) & 1023;
    for (int i = t; i < 1024; i += 128) {
        s[i] = in[i];
    }
    __syncthreads();
    unsigned x = s[table[t ^ 1]] + s[table[128 + (t * 5 & 127)]];
    __syncthreads();
    s[table[t]] = t;
    __syncthreads();
    x += s[table[127 - t]];
    out[blockIdx.x * 128 + t] = x;
}
