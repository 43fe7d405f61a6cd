// rows; refused: would be split
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = t[x][y];
    const unsigned a = __cvta_generic_to_shared(&t[y][4 * x]);
    if (flag) asm volatile("st.shared.v4.f32 [%0], {%1, %1, %1, %1};" :: "r"(a), "f"(1.f));  // WRONG
}
