// flat; harmless: the object's class is known
struct B { __device__ virtual float get(const float *p, int r, int c) { return p[r * 32 + c]; } };
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    B b;
    out[y * 32 + x] = b.get(t, x, y);
}
