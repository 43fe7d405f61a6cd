// Whole warps and parts of one are gone before the rest goes on.
extern "C" __global__ void early_return(const unsigned *in, unsigned *out, int n) {
    __shared__ unsigned s[512];
    const int t = threadIdx.x;
    const int i = blockIdx.x * 128 + t;
    s[t] = in[t];
    s[t + 128] = in[t + 128] + 1;
    __syncthreads();
    if (i >= n) {
        return;
    }
    unsigned x = s[t * 2];
    if (t % 32 == 9) {
        out[i] = x;
        return;
    }
    s[256 + t] = x + 5;
    __syncwarp(__activemask());
    x += s[256 + t];
    out[i] = x + s[255 - t];
}
