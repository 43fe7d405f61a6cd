// 16-byte accesses, their order and their gaps by the lane, some lanes missing, some at one address.
extern "C" __global__ void vectors_odd_vec4(const uint4 *in, uint4 *out) {
    __shared__ uint4 s[512];
    const int t = threadIdx.x;
    s[t * 5] = in[t];
    __syncthreads();
    uint4 x = s[(t ^ 6) * 5];
    if (t % 8 < 5) {
        const uint4 y = s[(t & ~1) * 5];
        x.x += y.x;
        x.y ^= y.y;
        x.z += y.z;
        x.w += y.w;
    }
    if (t != 31 && t != 50) {
        const uint4 z = s[(t * 3 % 64) * 5];
        x.x ^= z.w;
    }
    out[blockIdx.x * 64 + t] = x;
}
