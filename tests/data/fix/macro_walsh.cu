// Walsh-Hadamard transforms of 32 rows of 32 numbers, one thread per row.

#ifndef WIDTH
#define WIDTH 32
#endif
#define AT(row, i) buffer[(row)][(i)]
#define BUTTERFLY(row, i, j)                       \
    do {                                           \
        const float u = AT(row, i), v = AT(row, j); \
        AT(row, i) = u + v;                        \
        AT(row, j) = u - v;                        \
    } while (0)

__global__ void walsh(const float *in, float *out)
{
    __shared__ float buffer[WIDTH][WIDTH];
    const int lane = threadIdx.x;
    const float *source = in + blockIdx.x * WIDTH * WIDTH;
    for (int r = 0; r < WIDTH; ++r) AT(r, lane) = source[r * WIDTH + lane];
    __syncwarp();
#pragma unroll 1
    for (int span = 1; span < WIDTH; span *= 2)
        for (int i = 0; i < WIDTH; i++)
            if ((i & span) == 0) BUTTERFLY(lane, i, i + span);
    __syncwarp();
    for (int r = 0; r < WIDTH; ++r) out[blockIdx.x * WIDTH * WIDTH + r * WIDTH + lane] = AT(r, lane);
}
