// rows; refused: is handed to __shfl_sync
__global__ void k(const float *in, float *out, int row) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    float v;
    const unsigned a = __cvta_generic_to_shared(&t[row][x]);
    const unsigned first = __shfl_sync(0xffffffff, a, 0);  // WRONG
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(first + 4 * x));
    out[y * 32 + x] = t[x][y] + v;
}
