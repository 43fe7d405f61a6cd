// 8-byte accesses with an odd stride: two words a lane that cross into other banks.
extern "C" __global__ void vectors_odd_vec2(const uint2 *in, uint2 *out) {
    __shared__ uint2 s[512];
    const int t = threadIdx.x;
    s[t * 3] = in[t];
    s[(t * 5 + 1) % 64 + 448] = in[t];
    __syncthreads();
    uint2 x = s[(63 - t) * 3];
    if (t % 4 != 1) {
        const uint2 y = s[(t >> 1) * 3];
        x.x += y.x;
        x.y ^= y.y;
    }
    out[blockIdx.x * 64 + t] = x;
}
