// flat; refused: whose operators may not be those of numbers
#define AT(p, r, c) (p)[(r) * 32 + (c)]
struct Id { int v; __device__ operator int() const { return v; } };
__device__ int operator^(int a, Id b) { return (a ^ b.v) & 15; }
__device__ int operator&(Id a, int b) { return a.v & b & 7; }
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    const Id turn{x};
    AT(t, y, x) = in[y * 32 + x];
    __syncthreads();
    float v = AT(t, x, y);
    if (flag) v += AT(t, turn, y);  // WRONG
    out[y * 32 + x] = v;
}
