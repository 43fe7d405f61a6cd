/* A transpose in the style of the nineties: everything is a macro. */

#define TILE_DIM   32
#define BLOCK_ROWS 8
#define T(r, c)    tile[(r) * TILE_DIM + (c)]

__global__ void transpose_macro(float *odata, const float *idata, int width)
{
    __shared__ float tile[TILE_DIM * TILE_DIM];
    int tx = threadIdx.x, ty = threadIdx.y, j;

    for (j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        T(ty + j, tx) = idata[(blockIdx.y * TILE_DIM + ty + j) * width + blockIdx.x * TILE_DIM + tx];

    __syncthreads();

    for (j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        odata[(blockIdx.x * TILE_DIM + ty + j) * width + blockIdx.y * TILE_DIM + tx] = T(tx, ty + j);
}
