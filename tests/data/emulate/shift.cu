// tcgen05.shift of what threads have stored: in which lane and column it begins, and how many columns are stored.
#include <cstdint>

extern "C" __global__ void __launch_bounds__(128) shifted(uint32_t *out, int lane, int column, int stored) {
    __shared__ uint32_t tensor;
    __shared__ __align__(8) uint64_t done;
    const uint32_t barrier = (uint32_t)__cvta_generic_to_shared(&done), mine = threadIdx.x / 32 * 32 << 16;
    if (threadIdx.x < 32)
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;"
                     ::"r"((uint32_t)__cvta_generic_to_shared(&tensor)) : "memory");
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    for (int i = 0; i < stored; i++)
        asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};\ntcgen05.wait::st.sync.aligned;"
                     ::"r"(tensor + mine + i), "r"(i) : "memory");
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    if (threadIdx.x == 0)
        asm volatile("tcgen05.shift.cta_group::1.down [%0];\n"
                     "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%1];"
                     ::"r"(tensor + (lane << 16) + column), "r"(barrier) : "memory");
    __syncwarp();
    asm volatile("{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared.b64 p, [%0], 0;\n@!p bra AGAIN;\n}"
                 ::"r"(barrier) : "memory");
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    uint32_t loaded;
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];\ntcgen05.wait::ld.sync.aligned;"
                 : "=r"(loaded) : "r"(tensor + mine) : "memory");
    out[threadIdx.x] = loaded;
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    if (threadIdx.x < 32)
        asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" ::"r"(tensor));
}
