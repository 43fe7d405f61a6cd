
template <int W>
__device__ int &at(int *p, int r, int c) { return p[r * W + c]; }
__global__ void k(int *x, int *y, int *g, int *c, int n, int flag, int seed) {
    __shared__ int tile[32 * 32];
    const int tx = threadIdx.x, b = blockIdx.x;
    for (int r = threadIdx.y; r < 32; r += blockDim.y) at<32>(tile, r, tx) = x[b * 1024 + r * 32 + tx];
    __syncthreads();
    for (int r = threadIdx.y; r < 32; r += blockDim.y) {
        y[b * 1024 + r * 32 + tx] = at<32>(tile, tx, r);
        if (flag) atomicAdd(c + r, at<32>(g, tx, r));
    }
}
