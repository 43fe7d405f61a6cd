// Occupancy as the stand-in answers it, against NVIDIA's calculator: ends with 0 if they agree everywhere.
#include <cuda_occupancy.h>
template <int N>
__device__ int mixed(const int *x) {
    int kept[N], sum = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        kept[i] = x[i * 32 + threadIdx.x];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; ++i) {
        sum = sum * 31 ^ kept[i];
    }
    return sum;
}
template <int N, int Shared>
__global__ void kernel(int *x) {
    __shared__ int fixed[Shared];
    fixed[threadIdx.x % Shared] = mixed<N>(x);
    __syncthreads();
    x[threadIdx.x] = fixed[0];
}
template <int N>
__global__ void __launch_bounds__(256) bounded(int *x) { x[threadIdx.x] = mixed<N>(x); }

static int compared, different, most;
static void compare(void (*function)(int *), int dynamic) {
    cudaDeviceProp device;
    cudaFuncAttributes attributes;
    cudaGetDeviceProperties(&device, 0);
    if (dynamic) {
        cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic);
    }
    cudaFuncGetAttributes(&attributes, function);
    cudaOccDeviceProp properties = device;
    cudaOccFuncAttributes of = attributes;
    cudaOccDeviceState state;
    for (int threads = 1; threads <= 1100; threads += threads < 64 ? 1 : 31) {
        for (int shared = 0; shared <= dynamic + 4096; shared += 1009) {
            cudaOccResult expected;
            int found = -1;
            cudaOccMaxActiveBlocksPerMultiprocessor(&expected, &properties, &of, &state, threads, shared);
            cudaOccupancyMaxActiveBlocksPerMultiprocessor(&found, function, threads, shared);
            int wanted = shared > attributes.maxDynamicSharedSizeBytes ? 0 : expected.activeBlocksPerMultiprocessor;
            different += found != wanted;
            most = found > most ? found : most;
            ++compared;
        }
    }
}
// As many clusters as all multiprocessors have room for.
static bool counted(unsigned size) {
    int blocks, multiprocessors, clusters = -1;
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {size, 1, 1};
    cudaLaunchConfig_t config = {dim3(size), dim3(256), 1000, nullptr, &attribute, 1};
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bounded<120>, 256, 1000);
    return !cudaOccupancyMaxActiveClusters(&clusters, bounded<120>, &config) && clusters == blocks * multiprocessors / int(size);
}
int main() {
    compare(kernel<1, 1>, 0);
    compare(kernel<30, 1000>, 100000);
    compare(kernel<60, 8000>, 190000);
    compare(kernel<120, 1>, 0);
    compare(kernel<200, 12000>, 0);
    compare(bounded<120>, 227 << 10);
    bool refused = cudaFuncSetAttribute(bounded<1>, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 << 10) != cudaSuccess;
    kernel<1, 1><<<1, 1>>>(nullptr);
    return compared < 1000 || different || most != 32 || !refused || !counted(1) || !counted(4);
}
