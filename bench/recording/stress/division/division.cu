// Division and remainder by numbers that only the launch knows, signed and unsigned, 32 and 64 bits.
extern "C" __global__ void division(const unsigned *in, unsigned *out, int width, unsigned step, long long far) {
    __shared__ unsigned s[2048];
    const int t = threadIdx.x;
    for (int i = t; i < 2048; i += 96) {
        s[i] = in[i];
    }
    __syncthreads();
    const int row = t / width, column = t % width;
    const int back = (t - 50) / width, rest = (t - 50) % width;
    const unsigned u = (t * 1000003u) / step, r = (t * 2654435761u) % step;
    const long long q = (far + t * 12345678901ll) / (far / 1000 + t);
    unsigned x = s[row * 32 + column] + s[(back + 64) * 16 + rest + 100];
    x += s[u & 2047] + s[(r * 3) & 2047] + s[q & 2047];
    out[blockIdx.x * 96 + t] = x;
}
