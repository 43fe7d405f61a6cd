// Launches the kernels of a list on standard input: "CUBIN KERNEL GRID THREADS SHARED A B N" a line, numbers in
// decimal. Every kernel takes (uint64 a, uint64 b, int n, void *buffer). Prints each launch's clocks, which the kernel
// leaves in the first eight bytes of the buffer. Its last 128 bytes are a tensor map of its first half: 256 x 256 words
// in boxes of 32 x 8.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include <cuda.h>
#include <cuda_runtime.h>

static void check(cudaError_t status, const char *what) {
    if (status != cudaSuccess) {
        std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
        std::exit(1);
    }
}

constexpr size_t kBytes = 1 << 20;

static CUtensorMap map_of(void *buffer) {
    void *encode = nullptr;
    cudaDriverEntryPointQueryResult found;
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found), "map");
    CUtensorMap map;
    const cuuint64_t sizes[] = {256, 256}, strides[] = {1024};
    const cuuint32_t box[] = {32, 8}, steps[] = {1, 1};
    const CUresult status = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
        &map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 2, buffer, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    check(status == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue, "cuTensorMapEncodeTiled");
    return map;
}

int main() {
    void *buffer = nullptr;
    check(cudaMalloc(&buffer, kBytes), "cudaMalloc");
    const CUtensorMap map = map_of(buffer);
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
        check(cudaMemcpy((char *)buffer + kBytes - sizeof map, &map, sizeof map, cudaMemcpyHostToDevice), name);
        void *arguments[] = {&a, &b, &n, &buffer};
        check(cudaLaunchKernel((const void *)kernel, dim3(grid), dim3(threads), arguments, shared, nullptr), name);
        check(cudaDeviceSynchronize(), name);
        long long clocks;
        check(cudaMemcpy(&clocks, buffer, sizeof clocks, cudaMemcpyDeviceToHost), name);
        std::printf("%s %lld\n", name, clocks);
    }
}
