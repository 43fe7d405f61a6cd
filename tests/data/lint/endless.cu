__global__ void endless(volatile float* x) {
    __shared__ volatile float s[32];
    for (;;) s[threadIdx.x] += 1.f;
}
