// rows; refused: is of type Id
struct Id { int v; __device__ Id(int of) : v(of) {} __device__ operator int() const { return v; } };
__device__ int operator^(Id a, int b) { return (a.v ^ b) & 15; }
__device__ int operator*(Id a, int b) { return (a.v * b) % 24; }
typedef Id Turn;
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y][x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = t[x][y];
    if (flag) out[x] += t[x][Turn(y)];  // WRONG
}
