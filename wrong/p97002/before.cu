struct Line { int *p; };
__device__ __forceinline__ int &at(int *p, int r, int c) { return p[r * 32 + c]; }
__device__ __forceinline__ int &at(Line line, int r, int c) { return at(line.p, r, c); }

__global__ void k(int *x, int *y, int *g, int *c, int n, int flag, int seed) {
    extern __shared__ int pool[];
    int *tile = pool, *side = pool + 32 * 32;
    const int tx = threadIdx.x, ty = threadIdx.y, b = blockIdx.x;
    for (int r = ty; r < 32; r += 8) { at(tile, r, tx) = x[b * 1024 + r * 32 + tx]; }
    __syncthreads();
    for (int r = ty; r < 32; r += 8) {
        int v = at(tile, tx, r);
        for (int i = 1; i < 4; ++i) v += at(tile, (tx + i) % 32, r);
        { int *tile = g; v += tile[tx * 32 + r] * (int)flag; }
        if (blockIdx.x == 1) { c[512 + r * 32 + tx] = 1; }
        y[b * 1024 + r * 32 + tx] = v;
    }
}
