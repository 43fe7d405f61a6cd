__global__ void sized(float* y) {
    extern __shared__ float tile[];
    unsigned bytes;
    asm("mov.u32 %0, %dynamic_smem_size;" : "=r"(bytes));
    tile[bytes / 4 - 1 - threadIdx.x] = 1;
    y[threadIdx.x] = tile[threadIdx.x];
}
