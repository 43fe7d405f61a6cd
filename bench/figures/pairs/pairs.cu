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
    measure_cumsum(kit);
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

// Other sizes, measured after the rule's constants were chosen: they validate it.
void measure_unseen(Kit &kit) {
    measure_transpose<float, 32>(kit, "unseen_transpose_512", 512);
    measure_transpose<float, 32>(kit, "unseen_transpose_2048", 2048);
    measure_transpose<double, 32>(kit, "unseen_transpose_doubles", 1024);
    measure_transpose<uint16_t, 64>(kit, "unseen_transpose_halves", 512);
    measure_transpose<uint8_t, 128>(kit, "unseen_transpose_bytes", 2048);
    measure_sum_rows_async(kit, "unseen_sum_rows", 264);
    measure_scan(kit, "unseen_scan", 1056);
    measure_chase(kit, "unseen_chase_two_warps", 132, 64, 128);
    measure_chase(kit, "unseen_chase_few_blocks", 16, 512, 128);
    measure_softmax(kit, "unseen_softmax_66", 66);
    measure_softmax(kit, "unseen_softmax_1056", 1056);
    measure_product(kit, "unseen_sgemm_tiles", multiply_tiles<false>, multiply_tiles<true>,
                    {512, 512, 512, 32, {32, 32}});
    measure_product(kit, "unseen_sgemm_registers", multiply_registers<false>, multiply_registers<true>,
                    {1024, 1024, 256, 64, 64});
    measure_product(kit, "unseen_sgemm_async", multiply_async<false>, multiply_async<true>, {256, 512, 512, 64, 256});
    measure_product(kit, "unseen_mma", multiply_mma<false, 1>, multiply_mma<true, 1>, {1024, 1024, 512, 64, 128});
    measure_product(kit, "unseen_mma_pipelined", multiply_mma<false, 2>, multiply_mma<true, 2>,
                    {256, 512, 2048, 64, 128});
    measure_product(kit, "unseen_wmma", multiply_wmma<false>, multiply_wmma<true>, {256, 256, 1024, 64, 128});
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
    pairs::measure_unseen(kit);
    return kit.wrong() ? 1 : 0;
}
