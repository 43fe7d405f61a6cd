// What CUDA answers to calls that cannot be, a line each: ./app FILE. On an H100 the file is answers.txt.
#include <cooperative_groups.h>
#include <cuda_runtime.h>
#include <thread>
#include <cstdio>

__constant__ int fixed[4];
__global__ void plain(int *out) { out[threadIdx.x] = fixed[threadIdx.x % 4]; }
__global__ void __launch_bounds__(128) bounded(int *out) { out[threadIdx.x] = 1; }
__global__ void __cluster_dims__(2, 1, 1) in_pairs(int *out) { out[threadIdx.x] = 1; }
__global__ void together(int *out) {
    cooperative_groups::this_grid().sync();
    out[threadIdx.x] = 1;
}
// More than 64 registers: 1,024 threads do not fit.
__global__ void large(int *out) {
    __shared__ int factors[1024];
    int kept[100], sum = 0;
    factors[threadIdx.x] = out[threadIdx.x];
#pragma unroll
    for (int i = 0; i < 100; ++i) {
        kept[i] = out[i * 32 + threadIdx.x];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 100; ++i) {
        sum = sum * factors[threadIdx.x ^ 1] ^ kept[i];
    }
    out[threadIdx.x] = sum;
}

static FILE *file;
static void answer(const char *what, cudaError_t error) {
    cudaError_t last = cudaGetLastError();
    fprintf(file, "%s: %s%s\n", what, cudaGetErrorName(error), last == error ? "" : ", and another as the last error");
}
static void launched(const char *what, dim3 grid, dim3 block, size_t shared = 0, void (*kernel)(int *) = plain) {
    int *out;
    cudaMalloc(&out, 1 << 20);
    void *arguments[] = {&out};
    answer(what, cudaLaunchKernel((const void *)kernel, grid, block, arguments, shared, nullptr));
    cudaDeviceSynchronize();
    cudaFree(out);
}
static void clustered(const char *what, unsigned grid, unsigned cluster) {
    int *out;
    cudaMalloc(&out, 1 << 20);
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {cluster, 1, 1};
    cudaLaunchConfig_t config = {dim3(grid), dim3(32), 0, nullptr, &attribute, 1};
    answer(what, cudaLaunchKernelEx(&config, plain, out));
    cudaDeviceSynchronize();
    cudaFree(out);
}
static void cooperating(const char *what, unsigned grid) {
    int *out;
    cudaMalloc(&out, 1 << 20);
    void *arguments[] = {&out};
    answer(what, cudaLaunchCooperativeKernel((const void *)together, dim3(grid), dim3(1024), arguments, 0, nullptr));
    cudaDeviceSynchronize();
    cudaFree(out);
}

static void launches() {
    launched("grid of 0", 0, 32);
    launched("grid of 1 x 0", dim3(1, 0), 32);
    launched("block of 0", 1, 0);
    launched("block of 2048", 1, 2048);
    launched("block of 64 x 32", 1, dim3(64, 32));
    launched("block of 1 x 1 x 65", 1, dim3(1, 1, 65));
    launched("grid of 1 x 70000", dim3(1, 70000), 32);
    launched("grid of 1 x 1 x 70000", dim3(1, 1, 70000), 32);
    launched("grid of 70000", 70000, 32);
    launched("shared memory of 48 KiB", 1, 32, 48 << 10);
    launched("shared memory of 48 KiB and a byte", 1, 32, (48 << 10) + 1);
    launched("shared memory of 1 GiB", 1, 32, 1 << 30);
    answer("asking for 100 KiB", cudaFuncSetAttribute(plain, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10));
    launched("shared memory of 100 KiB", 1, 32, 100 << 10);
    answer("asking for 228 KiB", cudaFuncSetAttribute(plain, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 << 10));
    launched("a block beyond its launch bounds", 1, 256, 0, bounded);
    launched("a block with too many registers", 1, 1024, 0, large);
    launched("no kernel", 1, 32, 0, (void (*)(int *))launches);
    clustered("clusters of 2", 4, 2);
    clustered("clusters of 3 in a grid of 4", 4, 3);
    clustered("clusters of 16", 16, 16);
    launched("a grid of 4 for clusters of 2", 4, 32, 0, in_pairs);
    launched("a grid of 3 for clusters of 2", 3, 32, 0, in_pairs);
    cooperating("a cooperative launch that fits", 2);
    cooperating("a cooperative launch that does not", 1 << 20);
}

static void copies() {
    char host[8192] = {}, *device, *other;
    cudaMalloc(&device, 4096);
    cudaMalloc(&other, 4096);
    answer("copy to the end", cudaMemcpy(device + 96, host, 4000, cudaMemcpyHostToDevice));
    answer("copy beyond the end", cudaMemcpy(device, host, 8192, cudaMemcpyHostToDevice));
    answer("copy from beyond the end", cudaMemcpy(host, device, 8192, cudaMemcpyDeviceToHost));
    answer("asynchronous copy beyond the end", cudaMemcpyAsync(device, host, 8192, cudaMemcpyHostToDevice, 0));
    answer("set beyond the end", cudaMemset(device, 0, 4097));
    answer("copy of nothing", cudaMemcpy(device, host, 0, cudaMemcpyHostToDevice));
    answer("copy to null", cudaMemcpy(nullptr, host, 4, cudaMemcpyHostToDevice));
    answer("copy in another direction", cudaMemcpy(device, host, 4, cudaMemcpyKind(7)));
    answer("rows wider than their pitch", cudaMemcpy2D(device, 16, host, 16, 32, 4, cudaMemcpyHostToDevice));
    answer("rows beyond the end", cudaMemcpy2D(device, 64, host, 64, 64, 65, cudaMemcpyHostToDevice));
    answer("symbol", cudaMemcpyToSymbol(fixed, host, 16));
    answer("beyond a symbol", cudaMemcpyToSymbol(fixed, host, 17));
    answer("from beyond a symbol", cudaMemcpyFromSymbol(host, fixed, 16, 4));
    answer("no symbol", cudaMemcpyToSymbol(file, host, 4));
    answer("allocation of 1 PiB", cudaMalloc(&other, size_t(1) << 50));
    answer("free within an allocation", cudaFree(device + 512));
    cudaFree(device);
    answer("copy to what was freed", cudaMemcpy(device, host, 4, cudaMemcpyHostToDevice));
    answer("freed twice", cudaFree(device));
}

int main(int argc, char **argv) {
    file = fopen(argc > 1 ? argv[1] : "/dev/stdout", "w");
    launches();
    copies();
    cudaMalloc((void **)nullptr, 4);
    std::thread([] { answer("the last error of another thread", cudaPeekAtLastError()); }).join();
    answer("the last error of this one", cudaErrorInvalidValue);
    answer("the last error once it was asked for", cudaPeekAtLastError());
    return fclose(file);
}
