// rows; refused: computes with an address
__global__ void k(const float *in, float *out, int n) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    const unsigned a = (unsigned)__cvta_generic_to_shared(&t[x][y]);
    float v;
    asm volatile("{ .reg .u32 q; add.u32 q, %1, %2; ld.shared.f32 %0, [q]; }" : "=f"(v) : "r"(a), "r"(n));  // WRONG
    out[y * 32 + x] = v;
}
