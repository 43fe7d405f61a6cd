// Blocks of 16 x 16 threads, each with 2 x 2 results; the tiles' sizes are macros.

#define BLOCK 16
#define TILE  (2 * BLOCK)
#define SHARED_TILE(name) __shared__ float name[TILE][TILE]

__global__ void matmul_macro(const float *A, const float *B, float *C, int n)
{
    SHARED_TILE(As);
    SHARED_TILE(Bs);
    const int tx = threadIdx.x, ty = threadIdx.y;
    float c00 = 0, c01 = 0, c10 = 0, c11 = 0;

    for (int k0 = 0; k0 < n; k0 += TILE) {
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++) {
                As[ty + i * BLOCK][tx + j * BLOCK] = A[(blockIdx.y * TILE + ty + i * BLOCK) * n + k0 + tx + j * BLOCK];
                Bs[ty + i * BLOCK][tx + j * BLOCK] = B[(blockIdx.x * TILE + ty + i * BLOCK) * n + k0 + tx + j * BLOCK];
            }
        __syncthreads();
        for (int k = 0; k < TILE; k++) {
            c00 += As[ty][k] * Bs[tx][k];
            c01 += As[ty][k] * Bs[tx + BLOCK][k];
            c10 += As[ty + BLOCK][k] * Bs[tx][k];
            c11 += As[ty + BLOCK][k] * Bs[tx + BLOCK][k];
        }
        __syncthreads();
    }
    float *out = C + (blockIdx.y * TILE + ty) * n + blockIdx.x * TILE + tx;
    out[0] = c00;
    out[BLOCK] = c01;
    out[BLOCK * n] = c10;
    out[BLOCK * n + BLOCK] = c11;
}
