// Every width of ldmatrix, transposed and not, over rows of 16 bytes at several pitches.
static __device__ unsigned address(const void *p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

extern "C" __global__ void ldmatrix_all(const uint4 *in, unsigned *out, int pitch) {
    __shared__ uint4 s[1024];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    for (int i = t; i < 1024; i += 64) {
        s[i] = in[i];
    }
    __syncthreads();
    unsigned a, b, c, d, x = 0;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(a)
                 : "r"(address(s + lane * pitch + warp)));
    x += a;
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(a), "=r"(b)
                 : "r"(address(s + lane * 8 + warp)));
    x = 3 * x + a + 5 * b;
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(a), "=r"(b)
                 : "r"(address(s + (lane ^ warp) * 4)));
    x = 3 * x + a + 5 * b;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "r"(address(s + lane * 8 + (lane & 7))));
    x = 3 * x + a + 5 * b + 7 * c + 11 * d;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "r"(address(s + lane * pitch)));
    x = 3 * x + a + 5 * b + 7 * c + 11 * d;
    out[blockIdx.x * 64 + t] = x;
}
