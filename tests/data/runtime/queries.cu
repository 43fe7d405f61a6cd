// What device queries answer: ends with 0 if all is as an H100 says.
#include <cstring>
__global__ void nothing() {}
int main() {
    cudaDeviceProp p;
    int count, value;
    size_t unused, total;
    cudaGetDeviceCount(&count);
    cudaGetDeviceProperties(&p, 0);
    cudaMemGetInfo(&unused, &total);
    cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
    if (count != 1 || p.major != 9 || p.minor != 0 || p.multiProcessorCount != 132 || p.warpSize != 32 ||
        p.sharedMemPerBlockOptin != 232448 || p.sharedMemPerMultiprocessor != 233472 || value != 232448 ||
        p.maxThreadsPerMultiProcessor != 2048 || p.maxGridSize[0] != 2147483647 || p.maxThreadsDim[2] != 64 ||
        p.l2CacheSize != 52428800 || p.totalConstMem != 65536 || std::strcmp(p.name, "NVIDIA H100 80GB HBM3")) {
        return 3;
    }
    nothing<<<1, 1>>>();
    return total != p.totalGlobalMem;
}
