// rows; refused: is of type Id
struct Id { int v; __device__ operator int() const { return v; } };
__device__ int operator^(Id a, int b) { return (a.v ^ b) & 15; }
__device__ int operator*(Id a, int b) { return (a.v * b) % 24; }
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    const Id turn{x};
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = flag ? t[turn][y] : t[x][y];  // WRONG
}
