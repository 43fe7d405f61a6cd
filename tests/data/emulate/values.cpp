// Prints N, n and f(0, n) to f(191, n) for each function fN of values.h.
#include <cmath>
#include <cstdio>
#include <initializer_list>
#define HD
#define NI
#include "values.h"

int main() {
    for (int n : {5, 12}) {
#define X(N)                                                      \
    std::printf("%d %d", N, n);                                   \
    for (int t = 0; t < 192; t++) std::printf(" %d", f##N(t, n)); \
    std::printf("\n");
        ALL
    }
}
