#define NAME one
#include "body.cuh"
#undef NAME
#define NAME two
#include "body.cuh"
#undef NAME
__global__ void twice(float *out, const float *in) { one(out, in); }
