// A program of somebody else's: three kernels, one of them a template, launched several times in several sizes.
//
//   nvcc -arch=sm_90 -lineinfo -o several several.cu
//   ./several [--size N] [--pad] [--range] [--graph] [--fail]
//
// --pad widens the tile by a column, which frees it of conflicts; --range puts the launches between
// cudaProfilerStart and Stop; --graph launches them as one CUDA graph; --fail ends with exit code 7.
#include <cuda_profiler_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace demo {

constexpr int kTile = 32;

// Turns each tile of 32x32 elements; column reads of an unpadded tile conflict 32-way for float.
template <typename T, int kPad>
__global__ void turn(const T *in, T *out, int n) {
    __shared__ T tile[kTile][kTile + kPad];
    int x = blockIdx.x * kTile + threadIdx.x;
    int y = blockIdx.y * kTile;
    for (int row = threadIdx.y; row < kTile; row += blockDim.y) {
        tile[row][threadIdx.x] = in[(y + row) * n + x];
    }
    __syncthreads();
    x = blockIdx.y * kTile + threadIdx.x;
    y = blockIdx.x * kTile;
    for (int row = threadIdx.y; row < kTile; row += blockDim.y) {
        out[(y + row) * n + x] = tile[threadIdx.x][row];
    }
}

// Adds up rows: shared memory without a conflict.
__global__ void rowsum(const float *in, float *out, int n) {
    __shared__ float part[256];
    float sum = 0;
    for (int column = threadIdx.x; column < n; column += blockDim.x) {
        sum += in[blockIdx.x * n + column];
    }
    part[threadIdx.x] = sum;
    for (int left = blockDim.x / 2; left > 0; left /= 2) {
        __syncthreads();
        if (threadIdx.x < left) {
            part[threadIdx.x] += part[threadIdx.x + left];
        }
    }
    if (threadIdx.x == 0) {
        out[blockIdx.x] = part[0];
    }
}

}  // namespace demo

namespace {

// No shared memory at all.
__global__ void scale(float *data, float factor, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        data[i] *= factor;
    }
}

void check(cudaError_t status, const char *what) {
    if (status != cudaSuccess) {
        std::fprintf(stderr, "several: %s: %s\n", what, cudaGetErrorString(status));
        std::exit(1);
    }
}

template <int kPad>
void launch(float *in, float *out, double *wide_in, double *wide_out, float *sums, int n, cudaStream_t stream) {
    const dim3 block(demo::kTile, 8);
    for (int size : {n, n / 2, n}) {
        demo::turn<float, kPad><<<dim3(size / demo::kTile, size / demo::kTile), block, 0, stream>>>(in, out, size);
    }
    const dim3 wide_grid(n / 2 / demo::kTile, n / 2 / demo::kTile);
    demo::turn<double, kPad><<<wide_grid, block, 0, stream>>>(wide_in, wide_out, n / 2);
    demo::rowsum<<<n, 256, 0, stream>>>(in, sums, n);
    scale<<<(n + 255) / 256, 256, 0, stream>>>(sums, 0.5f, n);
    check(cudaGetLastError(), "launch");
}

bool given(int argc, char **argv, const char *option) {
    for (int i = 1; i < argc; ++i) {
        if (std::strcmp(argv[i], option) == 0) {
            return true;
        }
    }
    return false;
}

}  // namespace

int main(int argc, char **argv) {
    int n = 1024;
    for (int i = 1; i + 1 < argc; ++i) {
        if (std::strcmp(argv[i], "--size") == 0) {
            n = std::atoi(argv[i + 1]);
        }
    }
    if (n < 64 || n % 64 != 0) {
        std::fprintf(stderr, "several: --size %d is no multiple of 64\n", n);
        return 2;
    }
    const size_t count = static_cast<size_t>(n) * n;
    std::vector<float> host(count);
    for (size_t i = 0; i < count; ++i) {
        host[i] = static_cast<float>(i % 1021);
    }
    float *in, *out, *sums;
    double *wide_in, *wide_out;
    check(cudaMalloc(&in, count * sizeof(float)), "cudaMalloc");
    check(cudaMalloc(&out, count * sizeof(float)), "cudaMalloc");
    check(cudaMalloc(&sums, n * sizeof(float)), "cudaMalloc");
    check(cudaMalloc(&wide_in, count / 4 * sizeof(double)), "cudaMalloc");
    check(cudaMalloc(&wide_out, count / 4 * sizeof(double)), "cudaMalloc");
    check(cudaMemset(wide_in, 0, count / 4 * sizeof(double)), "cudaMemset");
    check(cudaMemcpy(in, host.data(), count * sizeof(float), cudaMemcpyHostToDevice), "cudaMemcpy");

    auto *run = given(argc, argv, "--pad") ? launch<1> : launch<0>;
    cudaStream_t stream;
    check(cudaStreamCreate(&stream), "cudaStreamCreate");
    if (given(argc, argv, "--graph")) {
        cudaGraph_t graph;
        cudaGraphExec_t executable;
        check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
        run(in, out, wide_in, wide_out, sums, n, stream);
        check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
        check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
        check(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
        check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    } else {
        const bool range = given(argc, argv, "--range");
        if (range) {
            check(cudaProfilerStart(), "cudaProfilerStart");
        }
        run(in, out, wide_in, wide_out, sums, n, stream);
        check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
        if (range) {
            check(cudaProfilerStop(), "cudaProfilerStop");
        }
    }

    std::vector<float> turned(count);
    check(cudaMemcpy(turned.data(), out, count * sizeof(float), cudaMemcpyDeviceToHost), "cudaMemcpy");
    for (int y = 0; y < n; ++y) {
        for (int x = 0; x < n; ++x) {
            if (turned[static_cast<size_t>(x) * n + y] != host[static_cast<size_t>(y) * n + x]) {
                std::fprintf(stderr, "several: wrong at row %d, column %d\n", y, x);
                return 1;
            }
        }
    }
    std::printf("several: turned %d x %d\n", n, n);
    return given(argc, argv, "--fail") ? 7 : 0;
}
