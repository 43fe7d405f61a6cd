// Run arithmetic.cu: `nvcc -arch=sm_90 -O3 -fmad=false record_arithmetic.cu -o record && ./record FOLDER`.
//
// Writes for each kernel its results (KERNEL.words) and, a line each, the operations in their order and the words that
// each one's result takes (KERNEL.names).
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
#include "../../tests/data/emulate/arithmetic.cu"

const int BLOCKS = 16, THREADS = 256, MOST = 128;  // words a thread

#define ONE(op) op " 1\n"
#define TWO(op) op " 2\n"
#define FOUR(op) "four." op " 1\n"
struct Group {
    const char *name;
    void (*kernel)(uint32_t *, int);
    const char *names;
};
const Group GROUPS[] = {
    {"single_add", single_add, SINGLE2(ONE)},
    {"single_fma", single_fma, SINGLE3(ONE)},
    {"single_one", single_one, SINGLE1(ONE)},
    {"single_transcendental", single_transcendental, TRANSCENDENTAL(ONE)},
    {"single_compare", single_compare, COMPARE(ONE)},
    {"single_to_int", single_to_int, F32_TO_INT(ONE) F32_TO_SHORT(ONE) F32_TO_LONG(TWO)},
    {"double_to_int", double_to_int, F64_TO_INT(ONE) F64_TO_LONG(TWO)},
    {"int_to_single", int_to_single, INT_TO_F32(ONE) SHORT_TO_F32(ONE) LONG_TO_F32(ONE)},
    {"int_to_double", int_to_double, INT_TO_F64(TWO) LONG_TO_F64(TWO)},
    {"double_single", double_single, F64_TO_F32(ONE) F32_TO_F64(TWO)},
    {"half_arithmetic", half_arithmetic, HALF2(ONE) HALF3(ONE) HALF1(ONE)},
    {"half_convert", half_convert,
     HALF_TO_F32(ONE) BF16_TO_F32(ONE) F32_TO_HALF(ONE) F32S_TO_HALVES(ONE) HALF_TO_INT(ONE) INT_TO_HALF(ONE)
         HALF_TO_F64(TWO) F64_TO_HALF(ONE) HALF_ROUNDED(ONE) F32_TO_TF32(ONE) HALF_COMPARE(ONE)},
    {"half_transcendental", half_transcendental, TRANSCENDENTAL2(ONE)},
    {"byte_convert", byte_convert,
     F32S_TO_BYTES(ONE) F32S_TO_FOUR_BYTES(FOUR) HALVES_TO_BYTES(ONE) BYTES_TO_HALVES(TWO) F32_TO_TF32_ROUNDED(ONE)},
    {"double_arithmetic", double_arithmetic, DOUBLE2(TWO) DOUBLE3(TWO)},
    {"double_one", double_one, DOUBLE1(TWO) DOUBLE_COMPARE(ONE)},
    {"integer_divide", integer_divide, INTEGER2(ONE) LONG2(TWO)},
};

void write(const std::string &path, const void *data, size_t bytes) {
    FILE *file = fopen(path.c_str(), "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file)) {
        fprintf(stderr, "cannot write %s\n", path.c_str());
        exit(1);
    }
}

int main(int argc, char **argv) {
    std::string folder = argc > 1 ? argv[1] : ".";
    const size_t threads = BLOCKS * THREADS;
    uint32_t *out;
    cudaMalloc(&out, 4 * threads * MOST);
    for (const Group &group : GROUPS) {
        std::string names = group.names;
        size_t words = 0;
        for (size_t end = names.find('\n'); end != std::string::npos; end = names.find('\n', end + 1))
            words += names[end - 1] - '0';
        if (words > MOST) { fprintf(stderr, "%s: %zu words\n", group.name, words); return 1; }
        group.kernel<<<BLOCKS, THREADS>>>(out, 0);
        std::vector<uint32_t> host(words * threads);
        cudaError_t status = cudaMemcpy(host.data(), out, 4 * host.size(), cudaMemcpyDeviceToHost);
        if (status != cudaSuccess) { fprintf(stderr, "%s: %s\n", group.name, cudaGetErrorString(status)); return 1; }
        write(folder + "/" + group.name + ".words", host.data(), 4 * host.size());
        write(folder + "/" + group.name + ".names", names.data(), names.size());
        printf("%s: %zu words\n", group.name, words);
    }
    return 0;
}
