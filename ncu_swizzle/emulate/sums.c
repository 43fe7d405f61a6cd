// Sums of products: c + a b^T as tensor cores add it up, as `fused_registers` of products.py says.
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { COLUMNS = 8, NO_EXPONENT = -1000, NARROW = 48 };

// Eight columns are added up side by side.
typedef int32_t Ints __attribute__((vector_size(4 * COLUMNS)));
typedef int64_t Longs __attribute__((vector_size(8 * COLUMNS)));
typedef float Floats __attribute__((vector_size(4 * COLUMNS), aligned(4)));
typedef double Doubles __attribute__((vector_size(8 * COLUMNS)));
#define AS(type, vector) __builtin_convertvector(vector, type)
#define INLINE static inline __attribute__((always_inline))
#if defined __x86_64__ && defined __linux__
#define VECTORS __attribute__((target_clones("avx2", "default")))
#define FUSED __attribute__((visibility("default"), target_clones("fma", "default")))
#else
#define VECTORS
#define FUSED __attribute__((visibility("default")))
#endif

typedef struct {
    int32_t rows, columns, depth, fraction, kept, halves, least_a, least_b, least_c;
} Product;

INLINE Ints larger(Ints one, Ints other) {
    for (int j = 0; j < COLUMNS; ++j) one[j] = one[j] > other[j] ? one[j] : other[j];
    return one;
}

INLINE Ints exponents(Floats numbers, int least) {
    Ints up = larger(((Ints)numbers >> 23 & 255) - 127, (Ints){0} + least), zero = numbers == 0;
    return (up & ~zero) | (NO_EXPONENT & zero);
}

INLINE Doubles powers(Ints up) { return (Doubles)((AS(Longs, up) + 1023) << 52); }

// Whether products of such numbers, and these times their unit, are normal floats.
INLINE Ints wide(Ints up) {
    return (up != NO_EXPONENT) & ((up < -NARROW) | (up > NARROW));
}

INLINE int any(Ints truths) {
    int found = 0;
    for (int j = 0; j < COLUMNS; ++j) found |= truths[j];
    return found;
}

static float not_a_number(void) {
    float number;
    memcpy(&number, &(uint32_t){0x7FFFFFFF}, 4);
    return number;
}

// What a register keeps of a sum: cut off behind `kept` bits, beyond 2^128 infinity; or the nearest half. No zero is
// negative.
static float rounded(double exact, const Product *how) {
    double size = fabs(exact);
    if (how->halves) {
        int up = ilogb(size) < -14 ? -14 : ilogb(size);
        size = ldexp(nearbyint(ldexp(size, 10 - up)), up - 10);
        return (float)copysign(size < 65520 ? size : INFINITY, exact) + 0.0f;
    }
    float nearest = (float)size;
    uint32_t bits;
    memcpy(&bits, &nearest, 4);
    bits = (bits - (nearest > size)) & -1u << (23 - how->kept);
    if (size < 0x1p128) memcpy(&nearest, &bits, 4);
    return (exact < 0 ? -nearest : nearest) + 0.0f;
}

// a (warps, rows, depth), b (warps, columns, depth), c and out in registers, (n, warps, 32).
VECTORS __attribute__((visibility("default"))) void fused_sums(const float *a, const float *b, const float *c, float *out,
                                                               const Product *how, int warps) {
    int rows = how->rows, columns = how->columns, depth = how->depth;
    Ints up_a[rows * depth / COLUMNS], up_b[depth];
    Floats across[depth];
    for (int warp = 0; warp < warps; ++warp, a += rows * depth, b += columns * depth) {
        Ints wide_a = {0}, infinite_a = {0};
        for (int i = 0; i < rows * depth / COLUMNS; ++i) {
            up_a[i] = exponents(((const Floats *)a)[i], how->least_a);
            wide_a |= wide(up_a[i]);
            infinite_a |= up_a[i] > 127;
        }
        for (int first = 0; first < columns; first += COLUMNS) {
            Ints wide_b = wide_a, infinite_b = infinite_a;
            for (int k = 0; k < depth; ++k) {
                for (int j = 0; j < COLUMNS; ++j) across[k][j] = b[(first + j) * depth + k];
                up_b[k] = exponents(across[k], how->least_b);
                wide_b |= wide(up_b[k]);
                infinite_b |= up_b[k] > 127;
            }
            int is_wide = any(wide_b), is_infinite = any(infinite_b);
            for (int row = 0; row < rows; ++row) {
                // Of the row, a register has the even columns, and the next one the odd ones.
                const long next = 32l * warps, at = (first / 8 * (rows / 8) + row / 8) * 2 * next + warp * 32 + row % 8 * 4;
                const float *left = a + row * depth;
                const int32_t *up = (const int32_t *)up_a + row * depth;
                Floats summand, kept;
                for (int j = 0; j < COLUMNS; ++j) summand[j] = c[at + j % 2 * next + j / 2];
                Ints top = exponents(summand, how->least_c), total = {0};
                int special = is_infinite | any(top > 127);
                for (int k = 0; k < depth; ++k) top = larger(top, up[k] + up_b[k]);
                Ints scale = (how->fraction - top) & (top > NO_EXPONENT / 2);
                Doubles unit = powers(scale);
                int narrow = !is_wide & !any(scale > 126);
                if (narrow)
                    for (int k = 0; k < depth; ++k)
                        total += AS(Ints, left[k] * across[k] * (Floats)((scale + 127) << 23));
                else
                    for (int k = 0; k < depth; ++k) total += AS(Ints, (double)left[k] * AS(Doubles, across[k]) * unit);
                // With the summand, it may be beyond 2^31.
                Doubles exact = (AS(Doubles, total) + AS(Doubles, AS(Ints, AS(Doubles, summand) * unit))) * powers(-scale);
                if (narrow && !how->halves)  // it is 0, or a normal float
                    kept = AS(Floats, (Doubles)((Longs)exact & (int64_t)-1 << (52 - how->kept)));
                else
                    for (int j = 0; j < COLUMNS; ++j) kept[j] = rounded(exact[j], how);
                for (int j = 0; special && j < COLUMNS; ++j) {  // infinity or NaN among the operands
                    double plain = summand[j];
                    for (int k = 0; k < depth; ++k) plain += (double)left[k] * across[k][j];
                    if (!isfinite(plain)) kept[j] = isnan(plain) ? not_a_number() : (float)plain;
                }
                for (int j = 0; j < COLUMNS; ++j) out[at + j % 2 * next + j / 2] = kept[j];
            }
        }
    }
}

// a b + c, rounded once, as `multiply_add_doubles` and `multiply_add_floats` of rounding.py.
FUSED void fused_doubles(const double *a, const double *b, const double *c, double *out, long count) {
    for (long i = 0; i < count; ++i) out[i] = fma(a[i], b[i], c[i]);
}

FUSED void fused_floats(const float *a, const float *b, const float *c, float *out, long count) {
    for (long i = 0; i < count; ++i) out[i] = fmaf(a[i], b[i], c[i]);
}

// a b + c of floats, rounded to odd, as `multiply_add` of rounding.py.
__attribute__((visibility("default"))) void odd_sums(const double *a, const double *b, const double *c, double *out,
                                                     long count) {
    for (long i = 0; i < count; ++i) {
        double product = a[i] * b[i], sum = product + c[i], back = sum - product;
        double error = (product - (sum - back)) + (c[i] - back);
        uint64_t bits;
        memcpy(&bits, &sum, 8);
        if (isfinite(sum) && error != 0 && !(bits & 1)) bits += (error > 0) == (sum > 0) ? 1 : -1;
        memcpy(out + i, &bits, 8);
    }
}
