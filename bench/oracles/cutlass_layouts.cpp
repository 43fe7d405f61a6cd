// What CUTLASS says of tcgen05's operands, for bench/oracles/cutlass_layouts.py: our own code, which includes its headers.
//
// Each line of text is followed, if it is of a tile, by the addresses of its bytes, 32 bits each.
#include <cstdint>
#include <cstdio>

#define CUTE_CVTA_GENERIC_TO_SHARED_ACTIVATED 1
alignas(1024) static uint8_t memory[1 << 18];
static uint32_t __cvta_generic_to_shared(const void *at) { return static_cast<uint32_t>(static_cast<const uint8_t *>(at) - memory); }

#include <cute/tensor.hpp>
#include <cute/atom/mma_traits_sm100.hpp>
#include <vector>

using namespace cute;
using UMMA::Major;

constexpr int START = 0x2400, STEPS = 8;  // of a K loop: two rows of 128 bytes

template <class T, Major major, class Atom, int MN, class Order>
void tile(const char *order) {
    using K = Int<256 / sizeof_bits_v<T>>;
    auto layout = UMMA::tile_to_mma_shape(Atom{}, Shape<Shape<Int<MN>, K>, _1, Int<STEPS>>{}, Order{});
    Tensor values = make_tensor(make_smem_ptr<T>(memory + START), layout);
    Tensor descriptors = make_tensor<UMMA::smem_desc<major>>(values);
    Tensor bytes = recast<uint8_t>(values);
    for (int step = 0; step < STEPS; ++step) {
        std::vector<uint32_t> places;
        constexpr int wide = sizeof_bits_v<T> < 8 ? 1 : sizeof_bits_v<T> / 8;
        constexpr int inner = major == Major::K ? 32 : MN * wide, outer = major == Major::K ? MN : K::value;
        for (int i = 0; i < outer; ++i) {
            for (int j = 0; j < inner; ++j) {
                auto at = major == Major::K ? make_coord(i, j) : make_coord(j, i);
                places.push_back(__cvta_generic_to_shared(&bytes(at, 0, step)));
            }
        }
        printf("tile %d %d %d %s %d %016llx %d %d\n", int(sizeof_bits_v<T>), int(major == Major::MN), MN, order, step,
               static_cast<unsigned long long>(descriptors(0, 0, step).desc_), outer, inner);
        fwrite(places.data(), sizeof(uint32_t), places.size(), stdout);
    }
}

template <class T, Major major, class Atom>
void sizes() {
    constexpr int least = size<0>(Atom{});
    tile<T, major, Atom, least == 8 ? 24 : least, Step<_1, _2>>("across");
    tile<T, major, Atom, 256, Step<_1, _2>>("across");
    tile<T, major, Atom, 256, Step<_2, _1>>("along");
}

template <class T>
void k_major() {
    sizes<T, Major::K, UMMA::Layout_K_INTER_Atom<T>>();
    sizes<T, Major::K, UMMA::Layout_K_SW32_Atom<T>>();
    sizes<T, Major::K, UMMA::Layout_K_SW64_Atom<T>>();
    sizes<T, Major::K, UMMA::Layout_K_SW128_Atom<T>>();
}

template <class T>
void mn_major() {
    sizes<T, Major::MN, UMMA::Layout_MN_INTER_Atom<T>>();
    sizes<T, Major::MN, UMMA::Layout_MN_SW32_Atom<T>>();
    sizes<T, Major::MN, UMMA::Layout_MN_SW64_Atom<T>>();
    sizes<T, Major::MN, UMMA::Layout_MN_SW128_Atom<T>>();
    if constexpr (sizeof_bits_v<T> == 32) {
        sizes<T, Major::MN, UMMA::Layout_MN_SW128_32B_Atom<T>>();
    }
}

// ---------------------------------------------------------------------------------------------- the instruction

template <class A, class B, class D, int M, int N, Major a, Major b>
void instruction(const char *opcode, const char *a_name, const char *b_name) {
    constexpr auto bits = UMMA::make_instr_desc<A, B, D, M, N, a, b>();
    printf("instruction %s 0 %s %s %d %d %d %d %d %08x\n", opcode, a_name, b_name, int(UMMA::to_CFormat<D>()), M, N,
           int(a == Major::MN), int(b == Major::MN), bits.desc_);
}

template <class A, class B, class S, int M, int N, Major a, Major b>
void scaled(const char *opcode, const char *a_name, const char *b_name) {
    constexpr auto bits = UMMA::make_instr_desc_block_scaled<A, B, float, S, M, N, a, b>();
    printf("instruction %s 1 %s %s 1 %d %d %d %d %08x\n", opcode, a_name, b_name, M, N, int(a == Major::MN),
           int(b == Major::MN), bits.desc_);
}

#define SHAPES(f, ...)                                                                                                \
    f<__VA_ARGS__, 64, 8, Major::K, Major::K>(names...), f<__VA_ARGS__, 64, 256, Major::K, Major::K>(names...),        \
        f<__VA_ARGS__, 128, 16, Major::K, Major::K>(names...), f<__VA_ARGS__, 128, 200, Major::K, Major::K>(names...), \
        f<__VA_ARGS__, 256, 32, Major::K, Major::K>(names...), f<__VA_ARGS__, 256, 256, Major::K, Major::K>(names...)
#define MAJORS(f, ...)                                                                                                  \
    f<__VA_ARGS__, 128, 64, Major::MN, Major::K>(names...), f<__VA_ARGS__, 128, 64, Major::K, Major::MN>(names...),      \
        f<__VA_ARGS__, 128, 64, Major::MN, Major::MN>(names...)

template <class A, class B, class D, bool majors, class... Names>
void shapes(Names... names) {
    SHAPES(instruction, A, B, D);
    if constexpr (majors) {
        MAJORS(instruction, A, B, D);
    }
}

template <class A, class B, class S, bool majors, class... Names>
void scaled_shapes(Names... names) {
    SHAPES(scaled, A, B, S);
    if constexpr (majors) {
        MAJORS(scaled, A, B, S);
    }
}

template <class A, bool majors>
void narrow(const char *name) {
    constexpr auto opcode = "UTCQMMA";
    shapes<A, float_e4m3_t, float, majors>(opcode, name, "e4m3");
    shapes<A, float_e5m2_t, half_t, majors>(opcode, name, "e5m2");
    shapes<A, detail::float_e2m3_unpacksmem_t, float, false>(opcode, name, "e2m3");
    shapes<A, detail::float_e3m2_unpacksmem_t, half_t, false>(opcode, name, "e3m2");
    shapes<A, detail::float_e2m1_unpacksmem_t, float, false>(opcode, name, "e2m1");
    scaled_shapes<A, float_e4m3_t, float_ue8m0_t, majors>(opcode, name, "e4m3");
    scaled_shapes<A, detail::float_e3m2_unpacksmem_t, float_ue8m0_t, false>(opcode, name, "e3m2");
    scaled_shapes<A, detail::float_e2m1_unpacksmem_t, float_ue8m0_t, false>(opcode, name, "e2m1");
}

// ---------------------------------------------------------------------------------------------- tensor memory

// The place of each element of one block's part: its lane and column, of 32 bits.
template <class Fragment, class T>
void fragment(const char *what, int pair, int m, int n) {
    printf("%s %d %d %d %d", what, pair, m, n, int(sizeof_bits_v<T>));
    auto layout = Fragment{}.layout();
    for (int i = 0; i < int(size<0>(layout)); ++i) {
        uint64_t at = uint64_t(layout(i)) * sizeof_bits_v<T> / 32;
        printf(" %x", unsigned(at));
    }
    puts("");
}

template <int M, int N, int pair>
void result() {
    using F = UMMA::tmem_frg<float, uint32_t, pair ? 2 : 1>;
    fragment<decltype(F::make(Shape<Shape<Int<M>, Int<N>>, _1, _1>{})), float>("result", pair, M << pair, N);
}

template <int M, int N>
void stationary() {
    using F = UMMA::tmem_frg_ws<float, uint32_t, 1>;
    fragment<decltype(F::make(Shape<Shape<Int<M>, Int<N>>, _1, _1>{})), float>("stationary", 0, M, N);
}

template <class T, int M, int pair, UMMA::TmemAllocMode mode>
void operand() {
    using F = UMMA::tmem_frg<T, T, pair ? 2 : 1, mode>;
    constexpr int K = 256 / sizeof_bits_v<T>;
    fragment<decltype(F::make(Shape<Shape<Int<M>, Int<K>>, _1, _1>{})), T>("operand", pair, M << pair, K);
}

template <class T>
void operands() {
    operand<T, 64, 0, UMMA::TmemAllocMode::NonInterleaved>();
    operand<T, 128, 0, UMMA::TmemAllocMode::NonInterleaved>();
    operand<T, 64, 1, UMMA::TmemAllocMode::Duplicated>();
    operand<T, 128, 1, UMMA::TmemAllocMode::Interleaved>();
}

// Scale factors of 32 values each, K = 32: one for each row; or of 16 with K = 64: four.
template <int MN, int vector, int count, int pair, bool of_a, UMMA::TmemAllocMode mode>
void scales(int m) {
    using F = UMMA::tmem_sf_frg<float_ue8m0_t, vector, pair ? 2 : 1, of_a, mode>;
    using S = Shape<Shape<Int<MN>, Shape<Int<vector>, Int<count>>>, _1, _1>;
    fragment<decltype(F::make(S{})), float_ue8m0_t>(of_a ? "scales_a" : "scales_b", pair, m, MN);
}

template <int vector, int count>
void all_scales() {
    constexpr auto whole = UMMA::TmemAllocMode::ScaleFactorDuplicated4by1, halves = UMMA::TmemAllocMode::ScaleFactorDuplicated2by2;
    scales<128, vector, count, 0, true, whole>(128);
    scales<64, vector, count, 0, false, whole>(128);
    scales<256, vector, count, 0, false, whole>(128);
    scales<128, vector, count, 1, true, whole>(256);
    scales<256, vector, count, 1, false, whole>(256);
    scales<64, vector, count, 1, true, halves>(128);
    scales<256, vector, count, 1, false, halves>(128);
    scales<128, vector, count, 1, false, halves>(128);
}

int main() {
    k_major<float_e2m1_t>();
    k_major<uint8_t>();
    k_major<half_t>();
    k_major<tfloat32_t>();
    mn_major<uint8_t>();
    mn_major<half_t>();
    mn_major<tfloat32_t>();
    shapes<half_t, half_t, float, true>("UTCHMMA", "f16", "f16");
    shapes<half_t, half_t, half_t, true>("UTCHMMA", "f16", "f16");
    shapes<bfloat16_t, bfloat16_t, float, true>("UTCHMMA", "bf16", "bf16");
    shapes<tfloat32_t, tfloat32_t, float, true>("UTCHMMA", "tf32", "tf32");
    shapes<int8_t, int8_t, int32_t, true>("UTCIMMA", "s8", "s8");
    shapes<uint8_t, int8_t, int32_t, true>("UTCIMMA", "u8", "s8");
    narrow<float_e4m3_t, true>("e4m3");
    narrow<float_e5m2_t, true>("e5m2");
    narrow<detail::float_e2m3_unpacksmem_t, false>("e2m3");
    narrow<detail::float_e3m2_unpacksmem_t, false>("e3m2");
    narrow<detail::float_e2m1_unpacksmem_t, false>("e2m1");
    scaled_shapes<float_e2m1_t, float_e2m1_t, float_ue8m0_t, false>("UTCOMMA", "packed-e2m1", "packed-e2m1");
    scaled_shapes<float_e2m1_t, float_e2m1_t, float_ue4m3_t, false>("UTCOMMA", "packed-e2m1", "packed-e2m1");
    result<64, 8, 0>(), result<64, 200, 0>(), result<64, 256, 0>(), result<128, 8, 0>(), result<128, 200, 0>();
    result<128, 256, 0>(), result<64, 32, 1>(), result<64, 256, 1>(), result<128, 32, 1>(), result<128, 256, 1>();
    stationary<32, 64>(), stationary<32, 256>(), stationary<64, 128>(), stationary<128, 64>(), stationary<128, 256>();
    operands<uint8_t>(), operands<half_t>(), operands<tfloat32_t>();
    all_scales<32, 1>();
    all_scales<16, 4>();
}
