// Norms and offsets of points: floats and integers carved out of one block of bytes.

struct Point { float x, y, z, w; };

__global__ void norms(const float* __restrict__ points, float* __restrict__ out, int count) {
    extern __shared__ __align__(16) unsigned char raw[];
    float* coordinates = reinterpret_cast<float*>(raw);                                  // blockDim.x x 8
    int* owner = reinterpret_cast<int*>(raw + blockDim.x * 8 * sizeof(float));           // blockDim.x

    const int first = blockIdx.x * blockDim.x;
    for (unsigned i = threadIdx.x; i < blockDim.x * 8; i += blockDim.x) coordinates[i] = points[first * 8 + i];
    owner[threadIdx.x] = first + threadIdx.x;
    __syncthreads();

    float sum = 0.0f;
    for (int k = 0; k < 8; ++k) {
        const float c = coordinates[threadIdx.x * 8 + k];
        sum += c * c;
    }
    const int to = owner[blockDim.x - 1 - threadIdx.x];
    if (to < count) out[to] = sum;
}
