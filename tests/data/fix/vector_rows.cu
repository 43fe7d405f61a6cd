// Each thread handles a row of 32 floats, in steps of four.

__global__ void scale_rows(const float4* __restrict__ in, float4* __restrict__ out, float factor) {
    __shared__ __align__(16) float rows[64][32];

    const int base = blockIdx.x * 64 * 8;
    for (int i = threadIdx.x; i < 64 * 8; i += 64) {
        *reinterpret_cast<float4*>(&rows[i / 8][i % 8 * 4]) = in[base + i];
    }
    __syncthreads();
    float most = 0.0f;
    for (int c = 0; c < 32; c += 4) {
        const float4 v = *reinterpret_cast<const float4*>(&rows[threadIdx.x][c]);
        most = fmaxf(fmaxf(fmaxf(most, fabsf(v.x)), fmaxf(fabsf(v.y), fabsf(v.z))), fabsf(v.w));
    }
    const float s = factor / fmaxf(most, 1e-20f);
    for (int c = 0; c < 32; c += 4) {
        float4 v = *reinterpret_cast<float4*>(&rows[threadIdx.x][c]);
        v.x *= s; v.y *= s; v.z *= s; v.w *= s;
        *reinterpret_cast<float4*>(&rows[threadIdx.x][c]) = v;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 64 * 8; i += 64) {
        out[base + i] = *reinterpret_cast<float4*>(&rows[i / 8][i % 8 * 4]);
    }
}
