// Launches the kernels of a list on standard input: "CUBIN KERNEL GRID THREADS SHARED A B N" a line, numbers in
// decimal. Every kernel takes (uint64 a, uint64 b, int n, void *buffer). Prints each launch's clocks, which the kernel
// leaves in the first eight bytes of the buffer.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include <cuda_runtime.h>

static void check(cudaError_t status, const char *what) {
    if (status != cudaSuccess) {
        std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
        std::exit(1);
    }
}

int main() {
    constexpr size_t kBytes = 1 << 20;
    void *buffer = nullptr;
    check(cudaMalloc(&buffer, kBytes), "cudaMalloc");
    std::map<std::string, cudaLibrary_t> libraries;
    char cubin[256], name[256];
    unsigned grid, threads, shared;
    unsigned long long a, b;
    int n;
    while (std::scanf("%255s %255s %u %u %u %llu %llu %d", cubin, name, &grid, &threads, &shared, &a, &b, &n) == 8) {
        cudaLibrary_t &library = libraries[cubin];
        if (!library) check(cudaLibraryLoadFromFile(&library, cubin, nullptr, nullptr, 0, nullptr, nullptr, 0), cubin);
        cudaKernel_t kernel;
        check(cudaLibraryGetKernel(&kernel, library, name), name);
        check(cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared), name);
        check(cudaMemset(buffer, 0, kBytes), name);
        void *arguments[] = {&a, &b, &n, &buffer};
        check(cudaLaunchKernel((const void *)kernel, dim3(grid), dim3(threads), arguments, shared, nullptr), name);
        check(cudaDeviceSynchronize(), name);
        long long clocks;
        check(cudaMemcpy(&clocks, buffer, sizeof clocks, cudaMemcpyDeviceToHost), name);
        std::printf("%s %lld\n", name, clocks);
    }
}
