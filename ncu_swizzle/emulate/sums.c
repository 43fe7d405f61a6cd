// Sums of products, with the results that NumPy gives without C: c + a b^T as tensor cores add it up, as `aligned_sums`
// of sums.py, which says how.
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { NO_EXPONENT = -1000, NARROW = 48 };

static int16_t exponent(float number, int least) {
    uint32_t bits;
    memcpy(&bits, &number, 4);
    int field = (int)(bits >> 23 & 255) - 127;
    return number == 0 ? NO_EXPONENT : field < least ? least : field;
}

// Fill in the numbers' exponents; return whether products of such numbers, and these times their unit, are normal floats.
static int exponents(const float *numbers, int16_t *up, int count, int least) {
    int wide = 0;
    for (int i = 0; i < count; ++i) {
        up[i] = exponent(numbers[i], least);
        wide |= up[i] != NO_EXPONENT && (up[i] < -NARROW || up[i] > NARROW);
    }
    return !wide;
}

static double power(int exponent) {
    uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double number;
    memcpy(&number, &bits, 8);
    return number;
}

static double element(const float *a, const float *b, float c, const int16_t *up_a, const int16_t *up_b, int depth,
                      int fraction, int narrow, int least_c) {
    int16_t top = exponent(c, least_c);
    for (int k = 0; k < depth; ++k) {
        int16_t up = up_a[k] + up_b[k];
        top = up > top ? up : top;
    }
    int scale = top > NO_EXPONENT / 2 ? fraction - top : 0;
    double unit = power(scale);
    float narrow_unit = (float)unit;
    int32_t total = 0;
    if (narrow && scale <= 126)
        for (int k = 0; k < depth; ++k) total += (int32_t)(a[k] * b[k] * narrow_unit);
    else
        for (int k = 0; k < depth; ++k) total += (int32_t)((double)a[k] * b[k] * unit);
    return ((int64_t)total + (int64_t)(c * unit)) * power(-scale);
}

__attribute__((visibility("default"))) void aligned_sums(const float *a, const float *b, const float *c, double *out,
                                                         int warps, int rows, int columns, int depth, int fraction,
                                                         int least_a, int least_b, int least_c) {
    int16_t up_a[rows * depth], up_b[columns * depth];
    for (int warp = 0; warp < warps; ++warp, a += rows * depth, b += columns * depth) {
        int narrow = exponents(a, up_a, rows * depth, least_a) & exponents(b, up_b, columns * depth, least_b);
        for (int i = 0; i < rows; ++i)
            for (int j = 0; j < columns; ++j)
                *out++ = element(a + i * depth, b + j * depth, *c++, up_a + i * depth, up_b + j * depth, depth, fraction,
                                 narrow, least_c);
    }
}

// a b + c, rounded once, as `multiply_add_doubles` of rounding.py.
__attribute__((visibility("default"))) void fused_sums(const double *a, const double *b, const double *c, double *out,
                                                       long count) {
    for (long i = 0; i < count; ++i) out[i] = fma(a[i], b[i], c[i]);
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
