// Moves particles by one step. A particle is a struct of eight floats in global memory. LAYOUT says where its fields lie
// in shared memory: 0 as they come, 1 in an array per field, 2 with four words between these arrays.

#ifndef LAYOUT
#define LAYOUT 2
#endif

constexpr int kBlock = 128, kFields = 8;

__device__ int place(int particle, int field) {
#if LAYOUT == 0
  return particle * kFields + field;
#else
  return field * (kBlock + (LAYOUT == 2 ? 4 : 0)) + particle;
#endif
}

// state: per particle its position, velocity, mass and charge, eight floats; moved: the same, one step later.
__global__ void drift(const float* __restrict__ state, float* __restrict__ moved, float dt) {
  __shared__ float fields[(kBlock + 4) * kFields];
  const int first = blockIdx.x * kBlock * kFields;
  for (int i = threadIdx.x; i < kBlock * kFields; i += kBlock) {
    fields[place(i / kFields, i % kFields)] = state[first + i];
  }
  __syncthreads();
  for (int axis = 0; axis < 3; ++axis) {
    fields[place(threadIdx.x, axis)] += dt * fields[place(threadIdx.x, 3 + axis)];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kBlock * kFields; i += kBlock) {
    moved[first + i] = fields[place(i / kFields, i % kFields)];
  }
}
