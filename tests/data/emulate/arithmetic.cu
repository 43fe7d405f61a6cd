// One result per PTX operation and thread, of operands that hold every kind of number: out[k * threads + thread].
// arithmetic.json has the SHA-256 of each operation's results on an H100 (bench/recording/record_arithmetic.py).
#include <cstdint>
#include "arithmetic.h"

__device__ uint32_t scattered(uint32_t number) {
    number = (number ^ 61) ^ (number >> 16);
    number *= 9;
    number ^= number >> 4;
    number *= 0x27d4eb2d;
    return number ^ (number >> 15);
}

// Zero, the numbers around a power of two, infinity or NaN, by 3 bits; else anything near the exponent of 1.
template <int MANTISSA, class Word>
__device__ Word number(uint32_t seed, Word any) {
    const int size = 8 * sizeof(Word), exponent = size - 1 - MANTISSA;
    const Word one = 1, sign = one << (size - 1), most = (one << exponent) - 1, bias = most >> 1;
    Word fraction = any & ((one << MANTISSA) - 1), power = any >> MANTISSA & most;
    switch (seed & 15) {
        case 0: power = 0; break;
        case 1: power = most; break;
        case 2: fraction = 0; break;
        case 3: fraction = 0, power = seed >> 4 & 1 ? most : 0; break;
        case 4: fraction = (one << MANTISSA) - 1; break;
        case 5: fraction = (one << MANTISSA) - 1, power = most - (seed >> 4 & 1); break;
        case 6: fraction = 1, power = seed >> 4 & 1; break;
        case 7: case 8: break;
        default: power = bias + (seed >> 4 & 15) - 4;  // fractions and integers
    }
    return any & sign | power << MANTISSA | fraction;
}

struct Operands {
    uint32_t seed[3], word[3];
    uint64_t wide[3];
    float f[3];
    uint32_t h[3];
    double d[3];
};

__device__ Operands operands(uint32_t thread) {
    Operands all;
    for (uint32_t k = 0; k < 3; k++) {
        uint32_t seed = scattered(8 * thread + k), low = scattered(seed), high = scattered(low + 1);
        all.seed[k] = seed;
        // Integers of any length.
        all.word[k] = seed & 1 ? int32_t(low) >> (seed >> 1 & 31) : low >> (seed >> 1 & 31);
        uint64_t wide = uint64_t(high) << 32 | low;
        all.wide[k] = seed & 1 ? int64_t(wide) >> (seed >> 1 & 63) : wide >> (seed >> 1 & 63);
        all.f[k] = __uint_as_float(number<23, uint32_t>(seed, high));
        all.d[k] = __longlong_as_double(number<52, uint64_t>(seed, wide));
        all.h[k] = number<10, uint16_t>(seed, low) | uint32_t(number<10, uint16_t>(seed >> 8, high)) << 16;
    }
    return all;
}

#define KERNEL(NAME)                                                              \
    extern "C" __global__ void NAME(uint32_t *out, int n) {                       \
        uint32_t threads = gridDim.x * blockDim.x, thread = blockIdx.x * blockDim.x + threadIdx.x; \
        Operands o = operands(thread);                                            \
        out += thread;
#define END }
#define PUT(value) { *out = value; out += threads; }
#define PUT64(value) { uint64_t bits = value; PUT(uint32_t(bits)) PUT(uint32_t(bits >> 32)) }
#define A2 " %0, %1, %2;"
#define A3 " %0, %1, %2, %3;"
#define A1 " %0, %1;"

#define S2(op) { float r; asm(op A2 : "=f"(r) : "f"(o.f[0]), "f"(o.f[1])); PUT(__float_as_uint(r)) }
#define S3(op) { float r; asm(op A3 : "=f"(r) : "f"(o.f[0]), "f"(o.f[1]), "f"(o.f[2])); PUT(__float_as_uint(r)) }
#define S1(op) { float r; asm(op A1 : "=f"(r) : "f"(o.f[0])); PUT(__float_as_uint(r)) }
#define CMP(op) { uint32_t r; asm("{.reg .pred p; setp." op " p, %1, %2; selp.u32 %0, 1, 0, p;}" : "=r"(r) : "f"(o.f[0]), "f"(o.f[1])); PUT(r) }
KERNEL(single_add) SINGLE2(S2) END
KERNEL(single_fma) SINGLE3(S3) END
KERNEL(single_one) SINGLE1(S1) END
KERNEL(single_transcendental) TRANSCENDENTAL(S1) END
KERNEL(single_compare) COMPARE(CMP) END

#define CVT(op, c, type, from, source, put) { type r; asm(op A1 : c(r) : from(source)); put }
#define FI(op) CVT(op, "=r", uint32_t, "f", o.f[0], PUT(r))
#define FH(op) CVT(op, "=h", uint16_t, "f", o.f[0], PUT(r))
#define FL(op) CVT(op, "=l", uint64_t, "f", o.f[0], PUT64(r))
#define DI(op) CVT(op, "=r", uint32_t, "d", o.d[0], PUT(r))
#define DL(op) CVT(op, "=l", uint64_t, "d", o.d[0], PUT64(r))
#define IF(op) CVT(op, "=f", float, "r", o.word[0], PUT(__float_as_uint(r)))
#define HF(op) CVT(op, "=f", float, "h", uint16_t(o.word[0]), PUT(__float_as_uint(r)))
#define LF(op) CVT(op, "=f", float, "l", o.wide[0], PUT(__float_as_uint(r)))
#define ID(op) CVT(op, "=d", double, "r", o.word[0], PUT64(__double_as_longlong(r)))
#define LD(op) CVT(op, "=d", double, "l", o.wide[0], PUT64(__double_as_longlong(r)))
#define DF(op) CVT(op, "=f", float, "d", o.d[0], PUT(__float_as_uint(r)))
#define FD(op) CVT(op, "=d", double, "f", o.f[0], PUT64(__double_as_longlong(r)))
KERNEL(single_to_int) F32_TO_INT(FI) F32_TO_SHORT(FH) F32_TO_LONG(FL) END
KERNEL(double_to_int) F64_TO_INT(DI) F64_TO_LONG(DL) END
KERNEL(int_to_single) INT_TO_F32(IF) SHORT_TO_F32(HF) LONG_TO_F32(LF) END
KERNEL(int_to_double) INT_TO_F64(ID) LONG_TO_F64(LD) END
KERNEL(double_single) F64_TO_F32(DF) F32_TO_F64(FD) END

#define H2(op) { uint32_t r; asm(op A2 : "=r"(r) : "r"(o.h[0]), "r"(o.h[1])); PUT(r) }
#define H3(op) { uint32_t r; asm(op A3 : "=r"(r) : "r"(o.h[0]), "r"(o.h[1]), "r"(o.h[2])); PUT(r) }
#define H1(op) { uint32_t r; asm(op A1 : "=r"(r) : "r"(o.h[0])); PUT(r) }
#define HS(op) CVT(op, "=f", float, "h", uint16_t(o.h[0] >> 16), PUT(__float_as_uint(r)))
#define SH(op) CVT(op, "=h", uint16_t, "f", o.f[0], PUT(r))
#define SSH(op) { uint32_t r; asm(op A2 : "=r"(r) : "f"(o.f[0]), "f"(o.f[1])); PUT(r) }
#define HI(op) CVT(op, "=r", uint32_t, "h", uint16_t(o.h[0]), PUT(r))
#define IH(op) CVT(op, "=h", uint16_t, "r", o.word[0], PUT(r))
#define HD(op) CVT(op, "=d", double, "h", uint16_t(o.h[0]), PUT64(__double_as_longlong(r)))
#define DH(op) CVT(op, "=h", uint16_t, "d", o.d[0], PUT(r))
#define HH(op) CVT(op, "=h", uint16_t, "h", uint16_t(o.h[0]), PUT(r))
#define HCMP(op) { uint32_t r; asm("{.reg .pred p; setp." op " p, %1, %2; selp.u32 %0, 1, 0, p;}" : "=r"(r) : "h"(uint16_t(o.h[0])), "h"(uint16_t(o.h[1]))); PUT(r) }
#define ST(op) CVT(op, "=r", uint32_t, "f", o.f[0], PUT(r))
#define SSB(op) { uint16_t r; asm(op A2 : "=h"(r) : "f"(o.f[0]), "f"(o.f[1])); PUT(r) }
#define SSB4(op) { uint32_t r; asm("{.reg .b16 a, b; " op " a, %1, %2; " op " b, %3, %1; mov.b32 %0, {a, b};}" \
    : "=r"(r) : "f"(o.f[0]), "f"(o.f[1]), "f"(o.f[2])); PUT(r) }
#define HB(op) CVT(op, "=h", uint16_t, "r", o.h[0], PUT(r))
#define BH(op) { uint32_t r; asm(op A1 : "=r"(r) : "h"(uint16_t(o.wide[2]))); PUT(r) asm(op A1 : "=r"(r) : "h"(uint16_t(o.h[1] >> 16))); PUT(r) }
KERNEL(half_transcendental) TRANSCENDENTAL2(H1) END
KERNEL(byte_convert) F32S_TO_BYTES(SSB) F32S_TO_FOUR_BYTES(SSB4) HALVES_TO_BYTES(HB) BYTES_TO_HALVES(BH) F32_TO_TF32_ROUNDED(ST) END
KERNEL(half_arithmetic) HALF2(H2) HALF3(H3) HALF1(H1) END
KERNEL(half_convert) HALF_TO_F32(HS) BF16_TO_F32(HS) F32_TO_HALF(SH) F32S_TO_HALVES(SSH) HALF_TO_INT(HI) INT_TO_HALF(IH) \
    HALF_TO_F64(HD) F64_TO_HALF(DH) HALF_ROUNDED(HH) F32_TO_TF32(ST) HALF_COMPARE(HCMP) END

#define D2(op) { double r; asm(op A2 : "=d"(r) : "d"(o.d[0]), "d"(o.d[1])); PUT64(__double_as_longlong(r)) }
#define D3(op) { double r; asm(op A3 : "=d"(r) : "d"(o.d[0]), "d"(o.d[1]), "d"(o.d[2])); PUT64(__double_as_longlong(r)) }
#define D1(op) { double r; asm(op A1 : "=d"(r) : "d"(o.d[0])); PUT64(__double_as_longlong(r)) }
#define DCMP(op) { uint32_t r; asm("{.reg .pred p; setp." op " p, %1, %2; selp.u32 %0, 1, 0, p;}" : "=r"(r) : "d"(o.d[0]), "d"(o.d[1])); PUT(r) }
KERNEL(double_arithmetic) DOUBLE2(D2) DOUBLE3(D3) END
KERNEL(double_one) DOUBLE1(D1) DOUBLE_COMPARE(DCMP) END

#define I2(op) { uint32_t r, divisor = o.word[1] | !o.word[1]; asm(op A2 : "=r"(r) : "r"(o.word[0]), "r"(divisor)); PUT(r) }
#define L2(op) { uint64_t r, divisor = o.wide[1] | !o.wide[1]; asm(op A2 : "=l"(r) : "l"(o.wide[0]), "l"(divisor)); PUT64(r) }
KERNEL(integer_divide) INTEGER2(I2) LONG2(L2) END
