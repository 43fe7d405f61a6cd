// Indices of 64 bits, with carries between their halves, cut down to an address at last.
extern "C" __global__ void wide_index(const unsigned *in, unsigned *out, unsigned long long seed) {
    __shared__ unsigned s[1024];
    const int t = threadIdx.x;
    for (int i = t; i < 1024; i += 64) {
        s[i] = in[i];
    }
    __syncthreads();
    unsigned long long z = seed + (blockIdx.x * 64ull + t) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    const long long shifted = static_cast<long long>(z) >> 41;
    unsigned x = s[z & 1023] + s[(z >> 32) & 1023] + s[(shifted < 0 ? -shifted : shifted) % 1021];
    if (z > 0x8000000000000000ull) {
        x += s[__popcll(z) * 16];
    }
    out[blockIdx.x * 64 + t] = x;
}
