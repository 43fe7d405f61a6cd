// Static and dynamic shared memory in one kernel, the dynamic part cut in two at run time.
extern __shared__ unsigned char dynamic[];

extern "C" __global__ void dynamic_and_static(const unsigned *in, unsigned *out, int cut) {
    __shared__ unsigned fixed[130];
    const int t = threadIdx.x;
    auto *first = reinterpret_cast<unsigned *>(dynamic);
    auto *second = reinterpret_cast<unsigned short *>(dynamic + cut);
    fixed[t + 1] = in[t];
    first[t * 4] = in[t] + 1;
    second[t * 2 + 1] = t;
    __syncthreads();
    out[blockIdx.x * 128 + t] = fixed[128 - t] + first[(127 - t) * 4] + second[(t ^ 3) * 2 + 1];
}
