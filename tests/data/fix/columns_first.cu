// Integers, each thread with a column of its own: every access has the thread's number first.

__global__ void columns_first(const int* in, int* out) {
    __shared__ int cells[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    cells[x][y] = in[blockIdx.x * 1024 + y * 32 + x];
    __syncthreads();
    out[blockIdx.x * 1024 + y * 32 + x] = cells[x][31 - y];
}
