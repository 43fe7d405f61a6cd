// Prints the addresses that layout policies give, for the cases in cases.h, which a test writes.
#include "layout.cuh"
#include <cstdio>

template <class Policy> void print(int rows, int units) {
    printf("%d\n", Policy::bytes(rows));
    for (int row = 0; row < rows; ++row)
        for (int unit = 0; unit < units; ++unit) printf("%d\n", Policy::at(row, unit));
}

int main() {
#include "cases.h"
}
