// cp.async of every size, through L1 and past it, whole and with zeros for what lies beyond the end.
static __device__ unsigned address(const void *p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

extern "C" __global__ void cp_async_sizes(const unsigned *in, unsigned *out, int rows) {
    __shared__ alignas(128) unsigned s[4096];
    const int t = threadIdx.x;
    const int left = rows - t; // words of zeros begin where none is left
    const unsigned *from = in + blockIdx.x * 64;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address(s + t * 2)), "l"(from + t));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(address(s + 256 + t * 2)), "l"(from + t * 2));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(address(s + 512 + (t ^ 3) * 4)), "l"(from + t * 4));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address(s + 1024 + (t ^ (t >> 3 & 7)) * 4)),
                 "l"(from + t * 4));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address(s + 1536 + t * 4)), "l"(from + t * 4),
                 "r"(left > 0 ? 16 : 0));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address(s + 2048 + t * 8)), "l"(from + t),
                 "r"(left > 20 ? 4 : 0));
    if (t % 3) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address(s + 3072 + t * 8)), "l"(from + t * 8));
    }
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    unsigned x = s[t * 2] + 3 * s[256 + t] + 5 * s[512 + t] + 7 * s[1024 + t] + 9 * s[1536 + t * 2];
    x += 11 * s[2048 + t * 8];
    if (t % 3) {
        x += 13 * s[3072 + t * 8 + 1];
    }
    out[blockIdx.x * 64 + t] = x;
}
