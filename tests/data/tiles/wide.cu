// Columns of float4 in rows of 256 bytes: 8 lanes of a phase. Swizzle<3,0,3> leaves 2, Swizzle<3,0,4> none.
extern "C" __global__ void wide_rows(const float4 *x, float4 *y) {
    __shared__ float4 tile[32][16];
    for (int i = threadIdx.x; i < 512; i += 128) tile[i / 16][i % 16] = x[i];
    __syncthreads();
    for (int c = threadIdx.x / 32; c < 16; c += 4) y[c * 32 + threadIdx.x % 32] = tile[threadIdx.x % 32][c];
}
