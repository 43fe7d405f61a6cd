// Runs the kernels of tiles.cu on inputs that make every wrong element show: "mutated CUBIN < CASES", a case a line as
// bench/oracles/descriptors.py writes it. Prints a line a case: its number, right, wrong, refused (no such tensor map), hang or
// fault, how many results are wrong, and the first of them. Ends after a hang or a fault.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <unistd.h>
#include <vector>

#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

constexpr int kSize = 256, kSlack = 1 << 20;

static void check(cudaError_t status, const char *what) {
    if (status == cudaSuccess) return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
    std::_Exit(1);
}

struct Operand { int values[12]; };
struct Layouts { Operand a, b; int base, expected; };

static std::vector<float> matrix(unsigned seed) {
    std::mt19937 random(seed);
    std::vector<float> values(kSize * kSize);
    for (float &value : values) value = (int)(random() % 17) - 8;
    return values;
}

// The buffer of a matrix, rows first or (`across`) columns first, and what is behind it.
static char *on_device(const std::vector<float> &values, bool across) {
    std::mt19937 random(9);
    std::vector<__half> halves(kSize * kSize + kSlack / 2);
    for (__half &half : halves) half = __float2half((int)(random() % 17) - 8);
    for (int i = 0; i < kSize; i++)
        for (int j = 0; j < kSize; j++) halves[across ? j * kSize + i : i * kSize + j] = __float2half(values[i * kSize + j]);
    char *buffer;
    check(cudaMalloc(&buffer, halves.size() * 2), "cudaMalloc");
    check(cudaMemcpy(buffer, halves.data(), halves.size() * 2, cudaMemcpyHostToDevice), "cudaMemcpy");
    return buffer;
}

struct Map {
    char arrangement;
    int dtype, sizes[2], stride, box[2], steps[2], interleave, swizzle, promotion, fill, offset;
    bool read() {
        return std::scanf(" %c %d %d %d %d %d %d %d %d %d %d %d %d %d", &arrangement, &dtype, &sizes[0], &sizes[1], &stride,
                          &box[0], &box[1], &steps[0], &steps[1], &interleave, &swizzle, &promotion, &fill, &offset) == 14;
    }
    CUresult encoded(CUtensorMap &map, char *buffer) const {
        static void *encode = nullptr;
        cudaDriverEntryPointQueryResult found;
        if (!encode) check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found), "map");
        const cuuint64_t sizes_[] = {(cuuint64_t)sizes[0], (cuuint64_t)sizes[1]}, strides[] = {(cuuint64_t)stride};
        const cuuint32_t box_[] = {(cuuint32_t)box[0], (cuuint32_t)box[1]}, steps_[] = {(cuuint32_t)steps[0], (cuuint32_t)steps[1]};
        return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
            &map, (CUtensorMapDataType)dtype, 2, buffer + offset, sizes_, strides, box_, steps_, (CUtensorMapInterleave)interleave,
            (CUtensorMapSwizzle)swizzle, (CUtensorMapL2promotion)promotion, (CUtensorMapFloatOOBfill)fill);
    }
};

int main(int, char **words) {
    const std::vector<float> a = matrix(1), b = matrix(2);
    std::vector<float> expected(kSize * kSize), result(kSize * kSize);
    for (int m = 0; m < kSize; m++)
        for (int n = 0; n < kSize; n++) {
            float sum = 0;
            for (int k = 0; k < kSize; k++) sum += a[m * kSize + k] * b[n * kSize + k];
            expected[m * kSize + n] = sum;
        }
    char *buffers[2][2] = {{on_device(a, false), on_device(a, true)}, {on_device(b, false), on_device(b, true)}};
    float *c;
    check(cudaMalloc(&c, kSize * kSize * 4), "cudaMalloc");
    cudaLibrary_t library;
    check(cudaLibraryLoadFromFile(&library, words[1], nullptr, nullptr, 0, nullptr, nullptr, 0), words[1]);
    int number;
    char name[16];
    while (std::scanf("%d %15s", &number, name) == 2) {
        Map maps[2];
        Layouts layouts;
        bool read = maps[0].read() && maps[1].read();
        int *values = reinterpret_cast<int *>(&layouts);
        for (size_t i = 0; i < sizeof layouts / 4; i++) {
            long long value;
            read = read && std::scanf("%lld", &value) == 1;
            values[i] = (int)value;
        }
        if (!read) { std::fprintf(stderr, "case %d is not understood\n", number); return 1; }
        CUtensorMap encoded[2];
        CUresult status = CUDA_SUCCESS;
        for (int i = 0; i < 2 && status == CUDA_SUCCESS; i++)
            status = maps[i].encoded(encoded[i], buffers[i][maps[i].arrangement == 'm']);
        if (status != CUDA_SUCCESS) { std::printf("%d refused %d\n", number, (int)status); std::fflush(stdout); continue; }
        cudaKernel_t kernel;
        check(cudaLibraryGetKernel(&kernel, library, name), name);
        const int shared = 96 * 1024;
        check(cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared), name);
        check(cudaMemset(c, 0xFF, kSize * kSize * 4), "cudaMemset");
        void *arguments[] = {&encoded[0], &encoded[1], &c, &layouts};
        check(cudaLaunchKernel((const void *)kernel, dim3(2, 2), dim3(256), arguments, shared, nullptr), name);
        cudaError_t done = cudaErrorNotReady;
        for (int i = 0; i < 500 && done == cudaErrorNotReady; i++) {
            std::this_thread::sleep_for(std::chrono::microseconds(i < 50 ? 20 : 1000));
            done = cudaStreamQuery(nullptr);
        }
        if (done != cudaSuccess) {
            std::printf("%d %s %d\n", number, done == cudaErrorNotReady ? "hang" : "fault", (int)done);
            std::fflush(stdout);
            _exit(done == cudaErrorNotReady ? 3 : 4);
        }
        check(cudaMemcpy(result.data(), c, result.size() * 4, cudaMemcpyDeviceToHost), "cudaMemcpy");
        int wrong = 0, first = -1;
        for (size_t i = 0; i < result.size(); i++)
            if (!(result[i] == expected[i])) { wrong++; if (first < 0) first = (int)i; }
        std::printf("%d %s %d", number, wrong ? "wrong" : "right", wrong);
        if (wrong) std::printf(" %d %g %g", first, result[first], expected[first]);
        std::printf("\n");
        std::fflush(stdout);
    }
}
