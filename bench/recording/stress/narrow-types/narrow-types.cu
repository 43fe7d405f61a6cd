// Accesses of one and of two bytes, some of which share a word.
extern "C" __global__ void narrow_types(const unsigned *in, unsigned *out) {
    __shared__ unsigned char bytes[2048];
    __shared__ unsigned short halves[1024];
    const int t = threadIdx.x;
    for (int i = t; i < 1024; i += 64) {
        bytes[i] = in[i];
        bytes[2047 - i] = in[i] >> 8;
        halves[i] = in[i];
    }
    __syncthreads();
    unsigned x = bytes[t] + bytes[t * 32] + bytes[t * 5 + 3];
    x = 3 * x + halves[t * 2 + 1] + halves[(t * 64 + 1) & 1023];
    x = 3 * x + static_cast<unsigned>(static_cast<signed char>(bytes[2047 - t * 4]));
    __syncthreads();
    halves[t * 3] = x;
    bytes[t * 7] = x;
    __syncthreads();
    out[blockIdx.x * 64 + t] = x + halves[189 - t * 3] + bytes[441 - t * 7];
}
