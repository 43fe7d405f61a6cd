extern "C" __global__ void product(unsigned long a, unsigned long b, unsigned memory, unsigned* y) {
    __shared__ unsigned tile[32];
    tile[threadIdx.x] = a;
    __syncthreads();
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; tcgen05.mma.cta_group::1.kind::f16 [%2], %0, %1, %2, p; }"
                 ::"l"(a), "l"(b), "r"(memory));
    y[threadIdx.x] = tile[31 - threadIdx.x];
}
