// A program whose bank conflicts depend on data: a histogram in shared memory, a table in constant memory that the host
// fills, a variable in global memory, and buffers that are only found through a struct. --alike counts equal values.
//
//   nvcc -arch=sm_90 -lineinfo -o counting counting.cu
//   ./counting [--alike]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

constexpr int kBins = 256, kThreads = 256;

__constant__ int table[kBins];
__device__ int shift = 1;

struct Task {
    const unsigned char *values;
    int *counts;
    int size;
};

static __global__ void count(Task task) {
    __shared__ int bins[kBins];
    bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * kThreads + threadIdx.x; i < task.size; i += gridDim.x * kThreads) {
        atomicAdd(&bins[task.values[i]], 1);
    }
    __syncthreads();
    atomicAdd(&task.counts[threadIdx.x], bins[threadIdx.x]);
}

static __global__ void permute(const int *counts, int *out) {
    __shared__ int rows[kBins * 2];
    rows[threadIdx.x << shift] = counts[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = rows[table[threadIdx.x] << shift];
}

static void check(cudaError_t status, const char *what) {
    if (status != cudaSuccess) {
        std::fprintf(stderr, "counting: %s: %s\n", what, cudaGetErrorString(status));
        std::exit(1);
    }
}

int main(int argc, char **argv) {
    const bool alike = argc > 1 && std::strcmp(argv[1], "--alike") == 0;
    const int size = 1 << 14, zero = 0;
    std::vector<unsigned char> values(size);
    std::vector<int> order(kBins), sorted(kBins);
    unsigned state = 7;
    for (unsigned char &value : values) {
        state = state * 1664525u + 1013904223u;
        value = static_cast<unsigned char>(alike ? 5 : state >> 24);
    }
    for (int i = 0; i < kBins; ++i) {
        order[i] = i * 32 % kBins + i / 8;
    }
    Task task = {nullptr, nullptr, size};
    int *out;
    check(cudaMalloc(&task.values, size), "cudaMalloc");
    check(cudaMalloc(&task.counts, kBins * sizeof(int)), "cudaMalloc");
    check(cudaMalloc(&out, kBins * sizeof(int)), "cudaMalloc");
    check(cudaMemcpy(const_cast<unsigned char *>(task.values), values.data(), size, cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cudaMemset(task.counts, 0, kBins * sizeof(int)), "cudaMemset");
    check(cudaMemcpyToSymbol(table, order.data(), kBins * sizeof(int)), "cudaMemcpyToSymbol");
    count<<<4, kThreads>>>(task);
    permute<<<1, kBins>>>(task.counts, out);
    check(cudaMemcpyToSymbol(shift, &zero, sizeof(int)), "cudaMemcpyToSymbol");
    permute<<<1, kBins>>>(task.counts, out);
    check(cudaGetLastError(), "launch");
    check(cudaMemcpy(sorted.data(), out, kBins * sizeof(int), cudaMemcpyDeviceToHost), "cudaMemcpy");
    std::printf("counting: counted %d values\n", size);
    return 0;
}
