// flat; refused: is virtual|is named|not followed|used in a way|handed to
struct B { __device__ virtual float get(const float *p, int r, int c) { return p[r * 32 + c]; } };  // WRONG
__global__ void k(const float *in, float *out, int flag) {
    __shared__ float t[1024];
    const int x = threadIdx.x, y = threadIdx.y;
    t[y * 32 + x] = in[y * 32 + x];
    __syncthreads();
    B b;
    out[y * 32 + x] = b.get(t, x, y);
}
