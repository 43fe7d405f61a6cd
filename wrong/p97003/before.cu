#define SIDE 32
#define W SIDE
struct Base { float *p; __device__ explicit Base(float *q) : p(q) {} __device__ float &at(int r, int c) const { return p[r * W + c]; } };
struct Derived : Base { __device__ explicit Derived(float *q) : Base(q) {} };

__global__ void k(float *x, float *y, float *g, int *c, int n, int flag, int seed) {
    __shared__ float tile[W][W];
    __shared__ float side[W][W];
    const int tx = threadIdx.x, ty = threadIdx.y, b = blockIdx.x;
    for (int r = ty; r < 32; r += 8) { Derived(&tile[0][0]).at(tx, r) = x[b * 1024 + r * 32 + tx]; }
    __syncthreads();
    for (int r = ty; r < 32; r += 8) {
        float v = Derived(&tile[0][0]).at(r, tx);
        y[b * 1024 + r * 32 + tx] = v;
    }
}
__global__ void second(float *x, float *y, float *g, int *c, int n, int flag, int seed) {
    const int tx = threadIdx.x, r = threadIdx.y;
    const float v = Derived(g).at(tx, r) + x[r];
    Derived((y + 4096)).at(r, tx) = v;
    if (c[0] == 77) y[0] = (float)(n + flag + seed);
}
