// Writes the size of its dynamic shared memory, as the hardware has it.
__global__ void sized(float* y) {
    extern __shared__ float held[];
    unsigned bytes;
    asm("mov.u32 %0, %dynamic_smem_size;" : "=r"(bytes));
    held[threadIdx.x] = bytes;
    y[threadIdx.x] = held[threadIdx.x];
}
