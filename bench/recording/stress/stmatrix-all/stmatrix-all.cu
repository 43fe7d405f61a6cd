// Every width of stmatrix, and what it wrote read back word by word.
static __device__ unsigned address(const void *p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

extern "C" __global__ void stmatrix_all(const unsigned *in, unsigned *out, int pitch) {
    __shared__ alignas(16) unsigned s[2][2048];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    unsigned *own = s[warp];
    for (int i = lane; i < 2048; i += 32) {
        own[i] = 0;
    }
    __syncwarp();
    const unsigned a = in[t], b = in[t + 64];
    asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(address(own + lane * 4)), "r"(a));
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(
                     address(own + 256 + lane * pitch)),
                 "r"(a), "r"(b));
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     address(own + 1024 + lane * 32)),
                 "r"(a), "r"(b), "r"(a + b), "r"(a ^ b)
                 : "memory");
    __syncwarp();
    unsigned x = 0;
    for (int i = 0; i < 2048; i += 32) {
        x = x * 31 + own[i + lane];
    }
    out[blockIdx.x * 64 + t] = x;
}
