// Refused: a pointer into the tile is kept in memory, and what is read through it cannot be followed.

struct View {
    float* first;
    int pitch;
};

__device__ View views[1024];

__global__ void through_views(const float* in, float* out) {
    __shared__ float tile[32][32];
    const int t = threadIdx.x;
    for (int r = 0; r < 32; ++r) tile[r][t] = in[r * 32 + t];
    views[blockIdx.x * 32 + t] = View{&tile[t][0], 1};
    __threadfence_block();
    __syncthreads();
    volatile View* mine = &views[blockIdx.x * 32 + t];
    float* row = mine->first;
    const int pitch = mine->pitch;
    float sum = 0.0f;
    for (int c = 0; c < 32; ++c) sum += row[c * pitch] * tile[t][31 - c];
    out[blockIdx.x * 32 + t] = sum;
}
