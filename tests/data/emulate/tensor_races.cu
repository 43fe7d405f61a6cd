// Small kernels with and without an order between their accesses to tensor memory, and to the tiles that tcgen05 reads, of
// 128 threads; each is as its neighbour, but for one mistake. What they compute is no matter. KERNEL says which hazards are to
// be found. Never run on hardware.
#include "../../../kernels/common/tensor.cuh"
#include "../../../kernels/common/warpgroup.cuh"

namespace {

constexpr int kTile = 128 * 128, kColumns = 64; // bytes of a tile; of tensor memory

__device__ uint32_t at(const void *shared) { return static_cast<uint32_t>(__cvta_generic_to_shared(shared)); }

// A block, or one of a pair: tiles of A and B in shared memory, tensor memory, mbarriers of one arrival each.
template <int group> struct Block {
    uint32_t tiles, tensor, barriers;

    __device__ Block(uint8_t *shared, uint64_t *barrier, uint32_t *column, bool begun)
        : tiles(at(shared)), barriers(at(barrier)) {
        if (!begun) sync();
        if (threadIdx.x < 32) ptx::tensor_allocate<group, kColumns>(at(column));
        if (threadIdx.x == 0)
            for (int i = 0; i < 4; ++i) ptx::mbarrier_init(barriers + 8 * i, 1);
        ptx::fence_async_shared();
        sync();
        tensor = *column;
    }

    __device__ void sync() const {
        __syncthreads();
        if (group == 2) asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    }
    __device__ void multiply(bool add = false) const {
        ptx::tensor_multiply<group>(tensor, ptx::tile<128>(tiles), ptx::tile<128>(tiles + kTile),
                                    ptx::instruction(128 * group, 16 * group), add);
    }
    __device__ void commit(int i) const { ptx::tensor_commit<group>(barriers + 8 * i); }
    __device__ void arrive(int i) const {
        asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barriers + 8 * i) : "memory");
    }
    __device__ void wait(int i, int parity = 0) const { ptx::mbarrier_wait(barriers + 8 * i, parity); }
    __device__ float load(int column = 0) const {
        float x[8];
        ptx::tensor_load(x, tensor + column + (threadIdx.x / 32 * 32 << 16));
        return x[0];
    }
    __device__ void store(float x, int column = 0) const {
        asm volatile("tcgen05.st.sync.aligned.32x32b.x8.b32 [%0], {%1, %1, %1, %1, %1, %1, %1, %1};" ::"r"(
                         tensor + column + (threadIdx.x / 32 * 32 << 16)), "f"(x) : "memory");
    }
    __device__ void stored() const { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }
    __device__ void copy(const void *in, int bytes, int i) const {
        ptx::mbarrier_arrive_expecting(barriers + 8 * i, bytes);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(tiles),
                     "l"(in), "r"(bytes), "r"(barriers + 8 * i) : "memory");
    }
    __device__ void free() const {
        if (threadIdx.x < 32) ptx::tensor_free<group, kColumns>(tensor);
    }
};

#define KERNEL(name, hazards) extern "C" __global__ void name(float *out, const float *in)
#define BLOCK(group) BEGUN(group, group == 1)
#define BEGUN(group, begun)                                                                                            \
    __shared__ __align__(1024) uint8_t shared[2 * kTile];                                                              \
    __shared__ __align__(8) uint64_t barriers[4];                                                                      \
    __shared__ uint32_t column;                                                                                        \
    const Block<group> block(shared, barriers, &column, begun);                                                        \
    const int t = threadIdx.x, warp = t / 32

} // namespace

KERNEL(loaded, "") { BLOCK(1); if (t == 0) { block.copy(in, 2 * kTile, 0); block.wait(0); block.multiply(); block.commit(1); } __syncwarp(); block.wait(1); out[t] = block.load(); __syncthreads(); block.free(); }
KERNEL(loaded_early, "02") { BLOCK(1); if (t == 0) { block.copy(in, 2 * kTile, 0); block.multiply(); block.commit(1); } __syncwarp(); block.wait(1); block.wait(0); out[t] = block.load(); __syncthreads(); block.free(); }

KERNEL(committed, "") { BLOCK(1); if (t == 0) { block.multiply(); block.commit(0); } __syncwarp(); block.wait(0); out[t] = block.load(); __syncthreads(); block.free(); }
KERNEL(committed_passed_on, "") { BLOCK(1); if (t == 0) { block.multiply(); block.commit(0); block.wait(0); } __syncthreads(); out[t] = block.load(); __syncthreads(); block.free(); }
KERNEL(committed_for_one_warp, "02") { BLOCK(1); if (t == 0) { block.multiply(); block.commit(0); block.wait(0); } __syncwarp(); out[t] = block.load(); __syncthreads(); block.free(); }
KERNEL(committed_by_another, "02") { BLOCK(1); if (t == 0) block.multiply(); __syncthreads(); if (t == 32) block.commit(0); __syncwarp(); block.wait(0); out[t] = block.load(); __syncthreads(); block.free(); }
KERNEL(added_to_nothing, "") { BLOCK(1); if (t == 0) { block.multiply(true); block.commit(0); } __syncwarp(); block.wait(0); out[t] = block.load(); __syncthreads(); block.free(); }
KERNEL(committed_too_soon, "02") { BLOCK(1); if (t == 0) { block.multiply(); block.commit(0); block.multiply(true); block.commit(1); } __syncwarp(); block.wait(0); out[t] = block.load(); block.wait(1); __syncthreads(); block.free(); }
KERNEL(parity_of_before, "02") { BLOCK(1); if (t == 0) { block.multiply(); block.commit(0); } __syncwarp(); block.wait(0, 1); out[t] = block.load(); __syncthreads(); block.wait(0); block.free(); }

// Warp 0 multiplies twice, warp 1 takes both results.
template <bool early> __device__ void in_turn(const Block<1> &block, float *out, int t) {
    if (t == 0) {
        block.multiply(); block.commit(0);
        block.wait(1); block.multiply(); block.commit(2);
    } else if (t / 32 == 1) {
        block.wait(0);
        if (early && t == 32) block.arrive(1);
        out[t] = block.load();
        __syncwarp();
        if (!early && t == 32) block.arrive(1);
        block.wait(2); out[t + 128] = block.load();
    }
    __syncthreads(); block.free();
}
KERNEL(released, "") { BLOCK(1); in_turn<false>(block, out, t); }
KERNEL(released_early, "02") { BLOCK(1); in_turn<true>(block, out, t); }
KERNEL(read_by_all, "") { BLOCK(1); for (int i = 0; i < 2; ++i) { if (t == 0) { block.multiply(); block.commit(0); } __syncwarp(); block.wait(0, i); out[128 * i + t] = block.load(); __syncthreads(); } block.free(); }
KERNEL(read_by_one, "02") { BLOCK(1); for (int i = 0; i < 2; ++i) { if (t == 0) { block.multiply(); block.commit(0); } __syncwarp(); block.wait(0, i); out[128 * i + t] = block.load(); } __syncthreads(); block.free(); }

KERNEL(freed_early, "01") { BLOCK(1); if (t == 0) { block.multiply(); block.commit(0); } __syncwarp(); block.wait(0); out[t] = block.load(); block.free(); }
KERNEL(freed_under_way, "02") { BLOCK(1); if (t == 0) { block.multiply(); block.commit(0); } __syncthreads(); block.free(); block.wait(0); }

KERNEL(stored, "") { BLOCK(1); block.store(in[t]); block.stored(); __syncthreads(); out[t] = block.load(); __syncthreads(); block.free(); }
KERNEL(stored_unwaited, "02") { BLOCK(1); block.store(in[t]); out[t] = block.load(); __syncthreads(); block.free(); }
// A in tensor memory, behind the results.
template <bool waits> __device__ void product_of_stored(const Block<1> &block, float *out, const float *in, int t) {
    block.store(in[t], 32);
    if (waits) block.stored();
    __syncthreads();
    if (t == 0) {
        asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, 0, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p;\n}" ::"r"(block.tensor),
                     "r"(block.tensor + 32), "l"(ptx::tile<128>(block.tiles)), "r"(ptx::instruction(128, 16)) : "memory");
        block.commit(0);
    }
    __syncwarp(); block.wait(0); out[t] = block.load();
    if (!waits) block.stored();
    __syncthreads(); block.free();
}
KERNEL(stored_for_a_product, "") { BLOCK(1); product_of_stored<true>(block, out, in, t); }
KERNEL(stored_for_a_product_unwaited, "02") { BLOCK(1); product_of_stored<false>(block, out, in, t); }

// Warp 1 stores the next tile.
KERNEL(stage_committed, "") { BLOCK(1); if (t == 0) { block.multiply(); block.commit(0); } if (warp == 1) { block.wait(0); shared[t - 32] = 1; } __syncthreads(); block.free(); }
KERNEL(stage_released_by_thread, "02") { BLOCK(1); if (t == 0) { block.multiply(); block.arrive(1); block.commit(0); } if (warp == 1) { block.wait(1); shared[t - 32] = 1; } block.wait(0); __syncthreads(); block.free(); }

KERNEL(two_issue, "") { BLOCK(1); if (t == 0) { block.multiply(); block.commit(0); } if (t == 32) { block.wait(0); block.multiply(true); block.commit(1); } __syncwarp(); block.wait(1); out[t] = block.load(); __syncthreads(); block.free(); }
KERNEL(two_issue_at_once, "02") { BLOCK(1); if (t == 0) { block.multiply(); block.commit(0); } if (t == 32) { block.multiply(true); block.commit(1); } __syncwarp(); block.wait(0); block.wait(1); out[t] = block.load(); __syncthreads(); block.free(); }

KERNEL(factors, "") { BLOCK(1); if (t == 0) { block.copy(in, 512, 0); block.wait(0); ptx::tensor_copy(block.tensor, ptx::tile<16>(block.tiles)); block.commit(1); } __syncwarp(); block.wait(1); out[t] = block.load(); __syncthreads(); block.free(); }
KERNEL(factors_early, "02") { BLOCK(1); if (t == 0) { block.copy(in, 512, 0); ptx::tensor_copy(block.tensor, ptx::tile<16>(block.tiles)); block.commit(1); } __syncwarp(); block.wait(1); block.wait(0); out[t] = block.load(); __syncthreads(); block.free(); }

// Mbarriers that the lanes of a warp initialise: ptxas makes stores of that.
template <int count> __device__ void initialised_by_lanes(float *out, const float *in) {
    __shared__ __align__(8) uint64_t barriers[32];
    __shared__ float row[128];
    const int t = threadIdx.x;
    if (t < 32) ptx::mbarrier_init(at(barriers + t), count);
    ptx::fence_async_shared();
    __syncthreads();
    row[t] = in[t];
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at(barriers + 5)) : "memory");
    ptx::mbarrier_wait(at(barriers + 5), 0);
    out[t] = row[127 - t];
}
KERNEL(lanes_initialise, "") { initialised_by_lanes<128>(out, in); }
KERNEL(lanes_initialise_for_more, "11") { initialised_by_lanes<129>(out, in); }

// Two blocks of a cluster: the even one multiplies for both.
KERNEL(pair, "") { BLOCK(2); shared[t] = 1; ptx::fence_async_shared(); block.sync(); if (blockIdx.x == 0 && t == 0) { block.multiply(); block.commit(0); } __syncwarp(); block.wait(0); out[t] = block.load(); block.sync(); block.free(); }
KERNEL(pair_begun_apart, "07") { BEGUN(2, true); if (blockIdx.x == 0 && t == 0) { block.multiply(); block.commit(0); } __syncwarp(); block.wait(0); out[t] = block.load(); block.sync(); block.free(); }
// Whoever has ended counts as arrived: the first warp waits for what the others have loaded.
KERNEL(pair_freed_by_the_last, "") { BLOCK(2); if (blockIdx.x == 0 && t == 0) { block.multiply(); block.commit(0); } __syncwarp(); block.wait(0); out[t] = block.load(); if (warp == 0) { block.sync(); block.free(); } }
KERNEL(pair_stored_late, "02") { BLOCK(2); shared[t] = 1; ptx::fence_async_shared(); __syncthreads(); if (blockIdx.x == 0 && t == 0) { block.multiply(); block.commit(0); } __syncwarp(); block.wait(0); out[t] = block.load(); block.sync(); block.free(); }
KERNEL(pair_freed_under_way, "02") { BLOCK(2); if (blockIdx.x == 0 && t == 0) { block.multiply(); block.commit(0); } __syncthreads(); block.free(); if (blockIdx.x == 0) block.wait(0); block.sync(); }
KERNEL(pair_ended, "02 07") { BLOCK(2); if (blockIdx.x == 0 && t == 0) { block.multiply(); block.commit(0); } if (blockIdx.x == 0) block.wait(0); __syncthreads(); block.free(); }

// What a tcgen05.ld reads is multiplied anew: its registers are used later, and it is waited for or not.
#define READ_AND_FREED(ended) \
    BLOCK(1); float x; \
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=f"(x) : "r"(block.tensor + (t / 32 * 32 << 16)) : "memory"); \
    ended; __syncthreads(); if (t == 0) { block.multiply(); block.commit(0); } __syncwarp(); block.wait(0); out[t] = x; \
    __syncthreads(); block.free()
KERNEL(read_waited, "") { READ_AND_FREED(asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory")); }
KERNEL(read_unwaited, "02") { READ_AND_FREED(); }
// st.bulk.
#define FILLED(order) \
    __shared__ __align__(16) float row[128]; const int t = threadIdx.x; \
    if (t == 0) asm volatile("st.bulk.weak.shared::cta [%0], 512, 0;" ::"r"(at(row)) : "memory"); \
    order; row[127 - t] += in[t]; out[t] = row[127 - t]
KERNEL(filled, "") { FILLED(__syncthreads()); }
KERNEL(filled_open, "01") { FILLED(); }

// Cluster launch control: a block takes over the work of others as long as there is some.
#define TAKEN(parity) \
    __shared__ __align__(16) uint4 response; \
    __shared__ uint64_t asked; \
    if (threadIdx.x == 0) ptx::mbarrier_init(at(&asked), 1); \
    __syncthreads(); \
    for (int i = 0, more = 1; more; ++i) { \
        if (threadIdx.x == 0) { \
            ptx::mbarrier_arrive_expecting(at(&asked), 16); \
            asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];" \
                         ::"r"(at(&response)), "r"(at(&asked)) : "memory"); \
        } \
        ptx::mbarrier_wait(at(&asked), parity); \
        asm volatile("{\n.reg .pred p;\n.reg .b128 h;\nld.shared.b128 h, [%1];\n" \
                     "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, h;\nselp.u32 %0, 1, 0, p;\n}" \
                     : "=r"(more) : "r"(at(&response)) : "memory"); \
        out[128 * blockIdx.x + threadIdx.x] = i; \
        __syncthreads(); \
    }
KERNEL(taken, "") { TAKEN(i & 1) }
KERNEL(taken_in_one_phase, "") { TAKEN(0) }
