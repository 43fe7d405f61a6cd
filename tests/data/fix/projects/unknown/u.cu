// A column is read, and with it a row that data name.
__global__ void u(const int *at, const float *in, float *out) {
    __shared__ float tile[32][32];
#pragma unroll 1
    for (int j = 0; j < 32; j++) tile[j][threadIdx.x] = in[32 * j + threadIdx.x];
    __syncthreads();
#pragma unroll 1
    for (int j = 0; j < 32; j++) out[32 * j + threadIdx.x] = tile[threadIdx.x][j] + tile[at[threadIdx.x] & 31][j];
}
