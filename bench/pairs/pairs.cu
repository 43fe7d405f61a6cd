// Pairs of kernels that differ only in the layout of their shared memory, unlike the catalogue's: small grids, few
// warps, dependent loads, pipelines, atomics, several conflicts at once, a few microseconds.
//
//   nvcc -O3 -std=c++17 -arch=sm_90 -lineinfo -I ../../kernels/common -o pairs pairs.cu
//   ./pairs [--once] [--seed N] [PAIR …]
//
// Prints a line of JSON per pair: whether both outputs are right, and the microseconds of a launch of each. --once
// launches each kernel once, for ncu: the conflicting one first.
#include <random>

#include "moves.cuh"
#include "orders.cuh"
#include "products.cuh"
#include "rows.cuh"
#include "tables.cuh"

namespace pairs {

void measure_all(Kit &kit) {
    measure_transpose<float, 32>(kit, "transpose_256", 256);
    measure_transpose<float, 32>(kit, "transpose_1024", 1024);
    measure_transpose<double, 32>(kit, "transpose_doubles", 512);
    measure_transpose<uint16_t, 64>(kit, "transpose_halves", 1024);
    measure_transpose<uint8_t, 128>(kit, "transpose_bytes", 1024);
    measure_exchange(kit);
    measure_sum_rows_async(kit, "sum_rows_async", 1056);
    measure_sum_rows_async(kit, "sum_rows_few_blocks", 66);
    measure_several(kit);
    measure_reduce(kit);
    measure_scan(kit, "scan", 264);
    measure_scan(kit, "scan_one_block", 1);
    measure_fft(kit);
    measure_solve(kit);
    measure_particles(kit);
    measure_chase(kit, "chase_one_warp", 66, 32, 256);
    measure_chase(kit, "chase_eight_warps", 132, 256, 256);
    measure_automaton(kit);
    measure_count_private(kit);
    measure_count_copies(kit);
    measure_add_columns(kit);
    measure_smooth(kit);
    measure_softmax(kit, "softmax", 264);
    measure_softmax(kit, "softmax_few_blocks", 12);
    measure_normalize(kit);
    measure_dot_rows(kit);
    measure_products(kit);
}

} // namespace pairs

int main(int count, char **arguments) {
    unsigned seed = std::random_device{}();
    bool once = false;
    std::vector<std::string> names;
    for (int i = 1; i < count; ++i) {
        std::string word = arguments[i];
        if (word == "--once") once = true;
        else if (word == "--seed" && i + 1 < count) seed = unsigned(std::strtoul(arguments[++i], nullptr, 10));
        else names.push_back(word);
    }
    std::fprintf(stderr, "seed %u\n", seed);
    pairs::Kit kit(seed, once, names);
    pairs::measure_all(kit);
    return kit.wrong() ? 1 : 0;
}
