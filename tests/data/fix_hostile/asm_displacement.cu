// rows; refused: computes with an address
__global__ void k(const float *in, float *out, int row) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    float v;
    const unsigned a = __cvta_generic_to_shared(&t[row][x & 30]);
    asm volatile("ld.shared.f32 %0, [%1+4];" : "=f"(v) : "r"(a));  // WRONG
    out[y * 32 + x] = t[x][y] + v;
}
