// Weighted sums of rows of integers: a ring of three flat buffers in dynamic shared memory.

constexpr int kStages = 3;
constexpr int kTile = 32 * 32;

__global__ void row_dots(const int* in, const int* weights, int* out, int n) {
    extern __shared__ int ring[];
    const int lane = threadIdx.x, warp = threadIdx.y;
    const int* rows = in + blockIdx.x * 32 * n;

    auto fill = [&](int stage, int step) {
        for (int r = warp; r < 32; r += 4) ring[stage * kTile + r * 32 + lane] = rows[r * n + step * 32 + lane];
    };
    const int steps = n / 32;
    for (int s = 0; s < kStages - 1; ++s) fill(s, s);
    int sum = 0;
    for (int step = 0; step < steps; ++step) {
        __syncthreads();
        if (step + kStages - 1 < steps) fill((step + kStages - 1) % kStages, step + kStages - 1);
        const int stage = step % kStages;
        for (int c = warp; c < 32; c += 4) sum += weights[step * 32 + c] * ring[stage * kTile + lane * 32 + c];
    }
    atomicAdd(&out[blockIdx.x * 32 + lane], sum);
}
