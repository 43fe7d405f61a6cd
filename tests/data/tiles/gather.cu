// The columns of a tile, and reads of it at addresses that are loaded from global memory.
extern "C" __global__ void gather(const int *x, float *y) {
    __shared__ float tile[32][32];
    for (int r = 0; r < 32; ++r) tile[threadIdx.x][r] = r;
    __syncthreads();
    y[threadIdx.x] = tile[x[threadIdx.x] & 31][threadIdx.x];
}
