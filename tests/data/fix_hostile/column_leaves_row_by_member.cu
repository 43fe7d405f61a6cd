// flat; refused: with another p.flag, it may leave its row
struct P {
    int flag, more;
};
__global__ void k(const float *in, float *out, P p) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = t[(x % 31) * 32 + y + 3 * p.flag];  // WRONG
}
