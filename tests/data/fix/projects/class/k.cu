template <int R, int C>
struct Tile {
    float v[R * C];
    __device__ float& at(int r, int c) { return v[r * C + c]; }
    // another method
};
// another object or kernel
__global__ void k(const float* in, float* out) {
    __shared__ Tile<32, 32> t;
    t.at(threadIdx.y, threadIdx.x) = in[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * 32 + threadIdx.x] = t.at(threadIdx.x, threadIdx.y);
}
