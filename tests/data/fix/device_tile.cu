// A tile goes by reference: loading and storing are functions of their own.

constexpr int N = 32;

__device__ __forceinline__ void fill(float (&tile)[N][N], const float *in, int pitch)
{
    for (int r = threadIdx.y; r < N; r += 8)
        tile[r][threadIdx.x] = in[r * pitch + threadIdx.x];
}

__device__ __forceinline__ void drain(const float (&tile)[N][N], float *out, int pitch)
{
    for (int r = threadIdx.y; r < N; r += 8)
        out[r * pitch + threadIdx.x] = 2.0f * tile[threadIdx.x][r];
}

__global__ void twice_transposed(const float *in, float *out, int pitch)
{
    __shared__ float pane[N][N];
    fill(pane, in + blockIdx.y * N * pitch + blockIdx.x * N, pitch);
    __syncthreads();
    drain(pane, out + blockIdx.x * N * pitch + blockIdx.y * N, pitch);
}
