// Two stages of two tiles, in a struct that is laid over dynamic shared memory.

struct Stage {
    float a[32][16];
    float b[16][32];
};

struct Smem {
    Stage stage[2];
    float bias[32];
};

__global__ void nested_stages(const float* in, float* out) {
    extern __shared__ __align__(16) char raw[];
    auto& smem = *reinterpret_cast<Smem*>(raw);
    const int t = threadIdx.x;
    if (t < 32) smem.bias[t] = in[t];
    for (int s = 0; s < 2; ++s) {
        for (int i = t; i < 512; i += 64) {
            smem.stage[s].a[i / 16][i % 16] = in[s * 512 + i];
            smem.stage[s].b[i / 32][i % 32] = in[1024 + s * 512 + i];
        }
    }
    __syncthreads();
    float sum = smem.bias[t % 32];
    for (int s = 0; s < 2; ++s)
        for (int k = 0; k < 16; ++k) sum += smem.stage[s].a[t % 32][k] * smem.stage[s].b[k][t / 32];
    out[t] = sum;
}
