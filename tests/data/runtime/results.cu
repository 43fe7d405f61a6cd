// A program that checks what its kernels compute, and ends with 1 if that is wrong.
//
//   nvcc -arch=sm_90 -lineinfo -cudart shared -o app results.cu
//   ./app right|wrong|unwritten|beyond|clock|race
#include <cstdio>
#include <cstring>

constexpr int kSize = 256;

__device__ int calls;

static __global__ void scale(float *out, const float *x, float by, int size) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) {
        out[i] = by * x[i];
    }
    if (i == 0) {
        ++calls;
    }
}

static __global__ void ticks(long long *out) { out[threadIdx.x] = clock64(); }

static __global__ void reverse(float *out) {
    __shared__ float row[kSize];
    row[threadIdx.x] = out[threadIdx.x];
    out[threadIdx.x] = row[kSize - 1 - threadIdx.x];  // without a barrier
}

int main(int, char **argv) {
    const char *how = argv[1];
    float host[kSize], *x, *out, *managed;
    long long *times, read[32];
    for (int i = 0; i < kSize; ++i) {
        host[i] = static_cast<float>(i);
    }
    cudaMalloc(&x, sizeof host);
    cudaMalloc(&out, sizeof host);
    cudaMalloc(&times, sizeof read);
    cudaMallocManaged(&managed, sizeof host);
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    memcpy(managed, host, sizeof host);
    if (!strcmp(how, "clock")) {
        ticks<<<1, 32>>>(times);
        cudaMemcpy(read, times, sizeof read, cudaMemcpyDeviceToHost);
        return 0;
    }
    scale<<<2, 128>>>(out, x, 2, !strcmp(how, "unwritten") ? 100 : !strcmp(how, "beyond") ? kSize + 1 : kSize);
    if (!strcmp(how, "beyond")) {
        scale<<<3, 128>>>(out, x, 2, kSize + 1);
    }
    scale<<<2, 128>>>(managed, managed, 3, kSize);  // in place, read without a copy
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    if (!strcmp(how, "race")) {
        reverse<<<1, kSize>>>(out);
    }
    cudaDeviceSynchronize();
    int launched = 0, wrong = !strcmp(how, "wrong");
    cudaMemcpyFromSymbol(&launched, calls, sizeof launched);
    for (int i = 0; i < kSize; ++i) {
        wrong += host[i] != 2.0f * static_cast<float>(i) || managed[i] != 3.0f * static_cast<float>(i);
    }
    wrong += launched != 2;
    std::printf("results: %d wrong\n", wrong);
    return wrong != 0;
}
