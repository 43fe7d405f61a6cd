// A program that uses the driver API alone: it loads a cubin of this same file, and launches its kernel three times, with
// parameters one by one, packed into a buffer, and as a library's kernel.
//
//   nvcc -arch=sm_90 -lineinfo -cubin -o driver.cubin driver.cu
//   nvcc -o driver driver.cu -lcuda
//   ./driver [driver.cubin]
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

struct Strides {
    int row, column;
    char unit;
};

// Column after column of a tile whose rows have `strides.row` floats: how often they conflict depends on it.
extern "C" __global__ void columns(const float *in, char odd, Strides strides, float *out) {
    extern __shared__ float tile[];
    for (int row = 0; row < 32; ++row) {
        tile[row * strides.row + threadIdx.x * strides.column] = in[row * 32 + threadIdx.x] + odd;
    }
    __syncthreads();
    float sum = 0;
    for (int column = 0; column < 32; ++column) {
        sum += tile[threadIdx.x * strides.row + column * strides.column];
    }
    out[blockIdx.x * 32 + threadIdx.x] = sum;
}

static void check(CUresult status, const char *what) {
    if (status != CUDA_SUCCESS) {
        std::fprintf(stderr, "driver: %s: %d\n", what, static_cast<int>(status));
        std::exit(1);
    }
}

int main(int argc, char **argv) {
    const char *file = argc > 1 ? argv[1] : "driver.cubin";
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUlibrary library;
    CUfunction function;
    CUkernel kernel;
    CUdeviceptr in, out;
    check(cuInit(0), "cuInit");
    check(cuDeviceGet(&device, 0), "cuDeviceGet");
    check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    check(cuModuleLoad(&module, file), "cuModuleLoad");
    check(cuModuleGetFunction(&function, module, "columns"), "cuModuleGetFunction");
    check(cuMemAlloc(&in, 32 * 32 * sizeof(float)), "cuMemAlloc");
    check(cuMemAlloc(&out, 4 * 32 * sizeof(float)), "cuMemAlloc");
    check(cuMemsetD32(in, 0x3f800000, 32 * 32), "cuMemsetD32");

    const unsigned bytes = 33 * 33 * sizeof(float);
    char odd = 1;
    Strides plain = {32, 1, 'f'}, padded = {33, 1, 'f'};
    void *parameters[] = {&in, &odd, &plain, &out};
    check(cuLaunchKernel(function, 4, 1, 1, 32, 1, 1, bytes, nullptr, parameters, nullptr), "cuLaunchKernel");

    struct {
        CUdeviceptr in;
        char odd;
        Strides strides;
        CUdeviceptr out;
    } packed = {in, odd, padded, out};
    size_t size = sizeof packed;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    check(cuLaunchKernel(function, 2, 1, 1, 32, 1, 1, bytes, nullptr, nullptr, extra), "cuLaunchKernel, packed");

    check(cuLibraryLoadFromFile(&library, file, nullptr, nullptr, 0, nullptr, nullptr, 0), "cuLibraryLoadFromFile");
    check(cuLibraryGetKernel(&kernel, library, "columns"), "cuLibraryGetKernel");
    check(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 32, 1, 1, bytes, nullptr, parameters, nullptr),
          "cuLaunchKernel of a CUkernel");

    std::vector<float> sums(32);
    check(cuMemcpyDtoH(sums.data(), out, 32 * sizeof(float)), "cuMemcpyDtoH");
    for (float sum : sums) {
        if (sum != 64) {
            std::fprintf(stderr, "driver: %f is not 64\n", sum);
            return 1;
        }
    }
    std::printf("driver: summed %d columns\n", 32);
    return 0;
}
