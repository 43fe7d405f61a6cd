// A program that uses a library of kernels: CUB sorts, whose shared-memory addresses depend on the keys.
//
//   nvcc -arch=sm_90 -lineinfo -o sorting sorting.cu
#include <cub/cub.cuh>

#include <cstdio>
#include <cstdlib>
#include <vector>

static void check(cudaError_t status, const char *what) {
    if (status != cudaSuccess) {
        std::fprintf(stderr, "sorting: %s: %s\n", what, cudaGetErrorString(status));
        std::exit(1);
    }
}

int main() {
    const int size = 3000;
    std::vector<unsigned> keys(size), sorted(size);
    unsigned state = 7;
    for (unsigned &key : keys) {
        state = state * 1664525u + 1013904223u;
        key = state >> 16;
    }
    unsigned *in, *out;
    void *room = nullptr;
    size_t bytes = 0;
    check(cudaMalloc(&in, size * sizeof(unsigned)), "cudaMalloc");
    check(cudaMalloc(&out, size * sizeof(unsigned)), "cudaMalloc");
    check(cudaMemcpy(in, keys.data(), size * sizeof(unsigned), cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cub::DeviceRadixSort::SortKeys(room, bytes, in, out, size), "SortKeys, size");
    check(cudaMalloc(&room, bytes), "cudaMalloc");
    check(cub::DeviceRadixSort::SortKeys(room, bytes, in, out, size), "SortKeys");
    check(cudaMemcpy(sorted.data(), out, size * sizeof(unsigned), cudaMemcpyDeviceToHost), "cudaMemcpy");
    for (int i = 1; i < size; ++i) {
        if (sorted[i - 1] > sorted[i]) {
            std::fprintf(stderr, "sorting: wrong at %d\n", i);
            return 1;
        }
    }
    std::printf("sorting: sorted %d keys\n", size);
    return 0;
}
