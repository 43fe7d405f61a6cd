// What MUFU and FCHK return, measured: `nvcc -O3 -arch=sm_90a measure.cu -o measure && ./measure FOLDER`.
//
// Writes, for each function, its results over the mantissas of one exponent (two if the parity of the exponent
// matters), the number of inputs per sign and exponent whose result does not follow from these by scaling, and results
// of scattered inputs. tables.py reads the files.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

enum Function { RCP, RSQ, SQRT, EX2, LG2, RCP64H, RSQ64H, FUNCTIONS };
const char *NAMES[] = {"rcp", "rsq", "sqrt", "ex2", "lg2", "rcp64h", "rsq64h"};
const int SAMPLES = 1 << 17;

#define CHECK(call)                                                                     \
    do {                                                                                \
        cudaError_t status = call;                                                      \
        if (status != cudaSuccess) {                                                    \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));             \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

// The instruction on 32 bits: a float, or the upper half of a double.
template <int F>
__device__ uint32_t mufu(uint32_t bits) {
    float x = __uint_as_float(bits), y = 0;
    if (F == RCP) asm volatile("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (F == RSQ) asm volatile("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (F == SQRT) asm volatile("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (F == EX2) asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (F == LG2) asm volatile("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (F < RCP64H) return __float_as_uint(y);
    double wide = __hiloint2double(bits, 0), result;
    if (F == RCP64H) asm volatile("rcp.approx.ftz.f64 %0, %1;" : "=d"(result) : "d"(wide));
    if (F == RSQ64H) asm volatile("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(result) : "d"(wide));
    return __double2hiint(result);
}

__host__ __device__ uint32_t scattered(uint32_t number) {
    number = (number ^ 61) ^ (number >> 16);
    number *= 9;
    number ^= number >> 4;
    number *= 0x27d4eb2d;
    return number ^ (number >> 15);
}

template <int F>
__global__ void consecutive(uint32_t first, uint32_t *out) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = mufu<F>(first + i);
}

template <int F>
__global__ void samples(uint32_t *out) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = mufu<F>(scattered(i));
}

// What 2^x is by its results for [1, 2): x in units of 2^-23, towards zero; if negative and no integer, their bits
// inverted.
__device__ uint32_t power(const uint32_t *base, uint32_t bits) {
    int exponent = int(bits >> 23 & 255), shift = exponent - 127;
    if (exponent == 255 && bits & 0x7fffff) return 0x7fffffff;
    if (shift >= 7) return bits >> 31 ? 0 : 0x7f800000;
    uint32_t mantissa = bits & 0x7fffff | 0x800000;
    int fixed = shift < -23 ? 0 : shift < 0 ? mantissa >> -shift : mantissa << shift;
    if (bits >> 31) fixed = fixed & 0x7fffff ? ~fixed : -fixed;
    int scaled = (fixed >> 23) + 126;  // the results in `base` are those of 2 and more
    return scaled < 0 ? 0 : base[fixed & 0x7fffff] + (uint32_t(scaled - 127) << 23);
}

__global__ void powers(const uint32_t *base, uint32_t *misses) {
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < 1u << 23; i += gridDim.x * blockDim.x) {
        uint32_t bits = blockIdx.y << 23 | i;
        if (mufu<EX2>(bits) != power(base + (1 << 23), bits)) atomicAdd(&misses[blockIdx.y], 1u);
    }
}

// Count the inputs of each sign and exponent whose result is not that of `base`, scaled by a power of two.
template <int F>
__global__ void scaling(const uint32_t *base, uint32_t *misses) {
    const int mantissa = F < RCP64H ? 23 : 20, bias = F < RCP64H ? 127 : 1023, most = 2 * bias;
    uint32_t row = blockIdx.y, per_row = 1u << mantissa;
    int sign = row / (most + 2), exponent = row % (most + 2), e = exponent - bias;
    bool halves = F != RCP && F != RCP64H;
    int odd = halves ? e & 1 : 0;
    int shift = F == RCP || F == RCP64H ? -e : F == SQRT ? (e - odd) / 2 : -(e - odd) / 2;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < per_row; i += gridDim.x * blockDim.x) {
        uint32_t bits = row << mantissa | i, at = base[odd * per_row + i];
        int scaled = int(at >> mantissa) + shift;
        uint32_t expected = scaled <= 0 ? 0 : at + (uint32_t(shift) << mantissa);
        expected |= uint32_t(sign) << 31;
        if (mufu<F>(bits) != expected) atomicAdd(&misses[row], 1u);
    }
}

// The cycles of a / b in a warp of one lane: the slow path, which FCHK chooses, takes longer.
__global__ void division(uint8_t *cycles, float *quotients) {
    const uint32_t mantissas[] = {0, 1, 0x2aaaaa, 0x7fffff};
    uint32_t number = blockIdx.x;
    uint32_t ea = number & 255, eb = number >> 8 & 255, ma = number >> 16 & 3, mb = number >> 18 & 3;
    uint32_t sa = number >> 20 & 1, sb = number >> 21;
    float a = __uint_as_float(sa << 31 | ea << 23 | mantissas[ma]);
    float b = __uint_as_float(sb << 31 | eb << 23 | mantissas[mb]);
    uint32_t least = 255;
    for (int repeat = 0; repeat < 4; repeat++) {
        uint32_t start, end;
        asm volatile("mov.u32 %0, %%clock;" : "=r"(start)::"memory");
        asm volatile("" : "+f"(a), "+f"(b)::"memory");
        float quotient = a / b;
        asm volatile("mov.u32 %0, %%clock;" : "=r"(end), "+f"(quotient)::"memory");
        least = min(least, end - start);
        quotients[number] = quotient;
    }
    cycles[number] = least;
}

void write(const std::string &folder, const std::string &name, const void *data, size_t bytes) {
    FILE *file = fopen((folder + "/" + name).c_str(), "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file)) {
        fprintf(stderr, "cannot write %s\n", name.c_str());
        exit(1);
    }
}

std::vector<uint32_t> fetched(const uint32_t *device, size_t count) {
    std::vector<uint32_t> host(count);
    CHECK(cudaMemcpy(host.data(), device, 4 * count, cudaMemcpyDeviceToHost));
    return host;
}

template <int F>
void measure(const std::string &folder) {
    const int mantissa = F < RCP64H ? 23 : 20;
    const bool halves = F == RSQ || F == SQRT || F == RSQ64H || F == EX2;
    const uint32_t first = (F == EX2 ? 126u : F < RCP64H ? 127u : 1023u) << mantissa;
    const uint32_t count = (halves ? 2u : 1u) << mantissa;
    uint32_t *results, *misses;
    CHECK(cudaMalloc(&results, 4 * count));
    CHECK(cudaMalloc(&misses, 4 * 4096));
    CHECK(cudaMemset(misses, 0, 4 * 4096));
    consecutive<F><<<count / 256, 256>>>(first, results);
    if (F != LG2) {
        write(folder, std::string(NAMES[F]) + ".words", fetched(results, count).data(), 4 * count);
        uint32_t rows = 1u << (32 - mantissa);
        if (F == EX2) powers<<<dim3(64, rows), 256>>>(results, misses);
        if (F != EX2) scaling<F><<<dim3(64, rows), 256>>>(results, misses);
        write(folder, std::string(NAMES[F]) + ".misses", fetched(misses, rows).data(), 4 * rows);
    }
    samples<F><<<SAMPLES / 256, 256>>>(results);
    write(folder, std::string(NAMES[F]) + ".samples", fetched(results, SAMPLES).data(), 4 * SAMPLES);
    CHECK(cudaFree(results));
    CHECK(cudaFree(misses));
}

int main(int argc, char **argv) {
    std::string folder = argc > 1 ? argv[1] : ".";
    measure<RCP>(folder);
    measure<RSQ>(folder);
    measure<SQRT>(folder);
    measure<EX2>(folder);
    measure<LG2>(folder);
    measure<RCP64H>(folder);
    measure<RSQ64H>(folder);
    const uint32_t pairs = 1u << 22;
    uint8_t *cycles;
    float *quotients;
    CHECK(cudaMalloc(&cycles, pairs));
    CHECK(cudaMalloc(&quotients, 4 * pairs));
    division<<<pairs, 1>>>(cycles, quotients);
    std::vector<uint8_t> host(pairs);
    CHECK(cudaMemcpy(host.data(), cycles, pairs, cudaMemcpyDeviceToHost));
    write(folder, "fchk.cycles", host.data(), host.size());
    CHECK(cudaDeviceSynchronize());
    printf("done\n");
    return 0;
}
