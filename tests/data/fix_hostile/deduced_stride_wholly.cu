// longer wholly; refused: is deduced from the tile, and grows with its rows
template <int H, int L>
__device__ float &cell(float (&t)[H][L], int r, int c) { return (&t[0][0])[r * L + c]; }  // WRONG
__global__ void k(const float *in, float *out, int row) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    cell(t, row, x) = in[x];
    __syncthreads();
    float sum = cell(t, row, x);
    for (int ld = 32; ld >= (row ? 8 : 16); ld /= 2) sum += (&t[0][0])[x * ld + y % 8];
    out[y * 32 + x] = sum;
}
