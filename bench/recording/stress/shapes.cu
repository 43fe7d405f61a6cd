// Blocks whose last warp is not full: where a thread's lane and its coordinates have little to do with each other.
extern "C" __global__ void shapes(const unsigned *in, unsigned *out) {
    __shared__ unsigned s[4096];
    const int size = blockDim.x * blockDim.y * blockDim.z;
    const int t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    for (int i = t; i < 4096; i += size) {
        s[i] = in[i];
    }
    __syncthreads();
    unsigned x = s[threadIdx.x * 37 % 4096] + s[(threadIdx.y * 256 + threadIdx.z * 32 + threadIdx.x) % 4096];
    __syncthreads();
    s[t * 3] = x;
    __syncthreads();
    x += s[(size - 1 - t) * 3];
    out[block * size + t] = x;
}
