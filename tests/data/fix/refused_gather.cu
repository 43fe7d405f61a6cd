// Refused: where a thread reads in the tile depends on data.

__global__ void gather_rows(const float *table, const int *index, float *out) {
    __shared__ float rows[32][32];
    for (int r = 0; r < 32; ++r) rows[r][threadIdx.x] = table[r * 32 + threadIdx.x];
    __syncthreads();
    for (int c = 0; c < 32; ++c) out[(blockIdx.x * 32 + threadIdx.x) * 32 + c] = rows[index[blockIdx.x * 32 + threadIdx.x] & 31][c] + rows[threadIdx.x][c];
}
