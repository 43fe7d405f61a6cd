// Columns in rows of 24 floats, in dynamic shared memory: lanes 24 words apart use 4 banks, 8 lanes each.
extern __shared__ volatile float tile[];  // loads of one float each
extern "C" __global__ void odd_rows(const float *x, float *y) {
    for (int r = 0; r < 32; ++r)
        if (threadIdx.x < 24) tile[r * PITCH + threadIdx.x] = x[r * 24 + threadIdx.x];
    __syncthreads();
    for (int c = 0; c < 24; ++c) y[c * 32 + threadIdx.x] = tile[threadIdx.x * PITCH + c];
}
