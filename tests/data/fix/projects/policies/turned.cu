#include "places.cuh"
#include "turning.cuh"

__global__ void turned(float *out, const float *in) {
    turn<places::Rows<32>>(out, in);
}
