// Which lane's value remains where several lanes of a warp store to one address: printed per width, space and pattern.
// What an H100 printed is in tests/emulate/test_lane_stores.py.
//
//   nvcc -arch=sm_90 -o lane_stores bench/recording/lane_stores.cu && ./lane_stores
#include <cstdio>
#include <cstdint>
#include <cstdlib>
struct alignas(8) W2 { uint32_t x, y; };
struct alignas(16) W4 { uint32_t x, y, z, w; };
template <typename T> __device__ T make(uint32_t v) { return T(v); }
template <> __device__ W2 make<W2>(uint32_t v) { return {v, v + 100}; }
template <> __device__ W4 make<W4>(uint32_t v) { return {v, v + 100, v + 150, v + 200}; }
template <typename T> __global__ void global_(T *out, const int *map) { out[map[threadIdx.x]] = make<T>(threadIdx.x); }
template <typename T> __global__ void shared_(T *out, const int *map) {
    __shared__ T tile[64];
    tile[map[threadIdx.x]] = make<T>(threadIdx.x);
    __syncthreads();
    out[map[threadIdx.x]] = tile[map[threadIdx.x]];
}
static int maps[12][32];
template <typename T> void run(const char *name, bool shared) {
    T *out; int *map;
    cudaMalloc(&out, 64 * sizeof(T)); cudaMalloc(&map, 32 * 4);
    for (int p = 0; p < 12; ++p) {
        cudaMemset(out, 0xff, 64 * sizeof(T)); cudaMemcpy(map, maps[p], 128, cudaMemcpyHostToDevice);
        if (shared) shared_<T><<<1, 32>>>(out, map); else global_<T><<<1, 32>>>(out, map);
        unsigned char host[64 * sizeof(T)];
        cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
        int low = 0, high = 0, other = 0, torn = 0, n = 0;
        for (int t = 0; t < 64; ++t) {
            int first = -1, last = -1, count = 0;
            for (int l = 0; l < 32; ++l) if (maps[p][l] == t) { first = first < 0 ? l : first; last = l; ++count; }
            if (count < 2) continue;
            ++n;
            int got = host[t * sizeof(T)];
            if (sizeof(T) > 4 && host[t * sizeof(T) + 4] != (unsigned char)(got + 100)) ++torn;
            low += got == first; high += got == last; other += got != first && got != last;
        }
        printf("%s %s pattern %d: %d places, lowest %d, highest %d, other %d, torn %d\n", shared ? "shared" : "global", name, p, n, low, high, other, torn);
    }
}
int main() {
    srand(1);
    for (int l = 0; l < 32; ++l) {
        maps[0][l] = 0; maps[1][l] = l / 2; maps[2][l] = l / 8; maps[3][l] = l % 8; maps[4][l] = l % 16; maps[5][l] = (31 - l) / 4;
        maps[6][l] = l / 8 * 9; maps[7][l] = l < 16 ? 5 : l;
        for (int p = 8; p < 12; ++p) maps[p][l] = rand() % (p == 8 ? 4 : p == 9 ? 16 : p == 10 ? 32 : 64);
    }
    for (int s = 0; s < 2; ++s) {
        run<uint8_t>("8", s); run<uint16_t>("16", s); run<uint32_t>("32", s); run<W2>("64", s); run<W4>("128", s);
    }
    printf("%s\n", cudaGetErrorString(cudaGetLastError()));
}
