// The first warp writes, the others read; named barriers pass the tile from one to the other.
extern "C" __global__ void warp_roles(const unsigned *in, unsigned *out, int steps) {
    __shared__ unsigned s[2][256];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    if (warp == 0) {
        for (int i = 0; i < steps; ++i) {
            for (int j = 0; j < 8; ++j) {
                s[i % 2][(lane * 8 + j) ^ (lane & 3)] = in[i * 256 + lane * 8 + j];
            }
            asm volatile("bar.sync 1, 128;" ::: "memory"); // the tile is whole
            asm volatile("bar.sync 2, 128;" ::: "memory"); // the tile has been read
        }
    } else {
        unsigned x = 0;
        for (int i = 0; i < steps; ++i) {
            asm volatile("bar.sync 1, 128;" ::: "memory");
            x = 3 * x + s[i % 2][(lane * 8 + warp) ^ (lane & 3)] + s[i % 2][warp * 32 + lane];
            asm volatile("bar.sync 2, 128;" ::: "memory");
        }
        out[(blockIdx.x * 3 + warp - 1) * 32 + lane] = x;
    }
}
