// Small kernels with and without an order between their accesses to shared memory, of 64 threads; `early` and the like
// are as their neighbours, but for one mistake. tests/emulate/test_races.py reads what is to be found.
#include <cuda_runtime.h>

#include <stdint.h>

__device__ __forceinline__ uint32_t at(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void init(uint64_t &b, int n) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at(&b)), "r"(n) : "memory");
}
__device__ __forceinline__ void arrive(uint64_t &b) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at(&b)) : "memory");
}
__device__ __forceinline__ void wait(uint64_t &b, int parity) {
    asm volatile("{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n@p bra done;\nbra again;\ndone:\n}"
                 ::"r"(at(&b)), "r"(parity) : "memory");
}
__device__ __forceinline__ void bar(int b, int n) { asm volatile("bar.sync %0, %1;" ::"r"(b), "r"(n) : "memory"); }

// A name, and the codes of the hazards that are to be found, without "RACE0".
#define KERNEL(name, hazards) extern "C" __global__ void name(float *out, const float *in)
#define ROW __shared__ __align__(128) float row[64]; const int t = threadIdx.x

KERNEL(ordered, "") { ROW; row[t] = in[t]; __syncthreads(); out[t] = row[63 - t]; }
KERNEL(unordered, "01") { ROW; row[t] = in[t]; __syncwarp(); out[t] = row[63 - t]; }
KERNEL(loop, "") {
    ROW;
    for (int i = 0; i < 1000; ++i) { row[t] = in[64 * i + t]; __syncthreads(); out[64 * i + t] = row[63 - t]; __syncthreads(); }
}
KERNEL(loop_open, "01") {
    ROW;
    for (int i = 0; i < 1000; ++i) { row[t] = in[64 * i + t]; __syncthreads(); out[64 * i + t] = row[63 - t]; }
}
KERNEL(in_block_100, "") { ROW; row[t] = in[t]; if (blockIdx.x == 100) row[63 - t] = 1; __syncthreads(); out[t] = row[63 - t]; }
KERNEL(lanes, "04") { ROW; ((volatile float *)row)[t] = in[t]; out[t] = ((volatile float *)row)[t ^ 1]; }
KERNEL(lanes_synced, "") { ROW; row[t] = in[t]; __syncwarp(); out[t] = row[t ^ 1]; }
KERNEL(named, "") { ROW; if (t < 32) { row[t] = in[t]; asm volatile("bar.arrive 1, 64;" ::: "memory"); } else { bar(1, 64); out[t] = row[t - 32]; } }
KERNEL(named_other, "10") { ROW; if (t < 32) { row[t] = in[t]; asm volatile("bar.arrive 2, 64;" ::: "memory"); } else { bar(1, 64); out[t] = row[t - 32]; } }
KERNEL(two_counts, "12") { ROW; if (t < 32) { row[t] = in[t]; bar(1, 32); } else { bar(1, 64); out[t] = row[t - 32]; } }
KERNEL(copied, "") {
    ROW; asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\ncp.async.wait_all;" ::"r"(at(row + t)), "l"(in + t) : "memory");
    __syncthreads(); out[t] = row[63 - t];
}
KERNEL(copied_early, "02") {
    ROW; asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\ncp.async.commit_group;\ncp.async.wait_group 1;" ::"r"(at(row + t)), "l"(in + t) : "memory");
    __syncthreads(); out[t] = row[63 - t];
}
__device__ __forceinline__ void leave(float *out, float *row) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;\ncp.async.bulk.commit_group;" ::"l"(out), "r"(at(row)) : "memory");
}
__device__ __forceinline__ void left() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ __forceinline__ void fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
KERNEL(left_fenced, "") { ROW; row[t] = in[t]; fence(); __syncthreads(); if (t == 0) { leave(out, row); left(); } __syncthreads(); row[t] = 1; out[64 + t] = row[t]; }
KERNEL(left_unfenced, "03") { ROW; row[t] = in[t]; __syncthreads(); if (t == 0) { leave(out, row); left(); } }
KERNEL(left_early, "02") { ROW; row[t] = in[t]; fence(); __syncthreads(); if (t == 0) { leave(out, row); } __syncthreads(); row[t] = in[t + 1]; left(); out[64 + t] = row[t]; }
KERNEL(left_at_end, "02") { ROW; row[t] = in[t]; fence(); __syncthreads(); if (t == 0) { leave(out, row); } }
__shared__ uint64_t b[2];
KERNEL(phases, "") { ROW; if (t == 0) { init(b[0], 64); } __syncthreads(); row[t] = in[t]; arrive(b[0]); wait(b[0], 0); out[t] = row[63 - t]; }
KERNEL(phase_wrong, "11") { ROW; if (t == 0) { init(b[0], 64); } __syncthreads(); row[t] = in[t]; arrive(b[0]); wait(b[0], 1); out[t] = row[63 - t]; }
KERNEL(phase_never, "11") { ROW; if (t == 0) { init(b[0], 65); } __syncthreads(); row[t] = in[t]; arrive(b[0]); wait(b[0], 0); out[t] = row[63 - t]; }
KERNEL(phase_twice, "14") { ROW; if (t == 0) { init(b[0], 48); } __syncthreads(); row[t] = in[t]; arrive(b[0]); __syncthreads(); out[t] = row[63 - t]; }
KERNEL(uninitialised, "01") { ROW; if (t == 0) { init(b[0], 64); } row[t] = in[t]; arrive(b[0]); wait(b[0], 0); out[t] = row[63 - t]; }
KERNEL(mbarrier_overwritten, "01 14") { ROW; if (t == 0) { init(b[0], 64); } __syncthreads(); arrive(b[0]); wait(b[0], 0); __syncthreads(); ((float *)b)[t % 4] = in[t]; __syncthreads(); out[t] = ((float *)b)[t % 2]; row[t] = 0; }
KERNEL(mbarrier_ended, "") { if (threadIdx.x == 0) { init(b[0], 64); } __syncthreads(); arrive(b[0]); wait(b[0], 0); __syncthreads(); if (threadIdx.x == 0) { asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(at(&b[0])) : "memory"); ((volatile float *)b)[0] = in[0]; } __syncthreads(); out[threadIdx.x] = ((volatile float *)b)[0]; }
KERNEL(same_value, "06") { ROW; row[blockIdx.y] = 1; __syncthreads(); out[t] = row[blockIdx.x]; }
KERNEL(other_values, "01") { ROW; row[0] = in[t]; __syncthreads(); out[t] = row[0]; }
KERNEL(polled, "08") {
    ROW; __shared__ volatile int flag; if (t == 0) { flag = 0; } __syncthreads();
    if (t < 32) { row[t] = in[t]; __syncwarp(); if (t == 0) { __threadfence_block(); flag = 1; } }
    else { while (!flag) {} __threadfence_block(); out[t] = row[t - 32]; }
}
KERNEL(on_data, "01") { ROW; row[t] = 0; __syncthreads(); if (in[t] > 0) { row[t] = 1; } out[t] = row[63 - t]; }
KERNEL(one_on_data, "") { ROW; row[t] = 0; __syncthreads(); if (in[t] > 0) { row[5] = t; } __syncthreads(); out[t] = row[5]; }
KERNEL(counted, "") { __shared__ int n[64]; const int t = threadIdx.x; n[t] = 0; __syncthreads(); atomicAdd(&n[t / 2], 1); atomicAdd(&n[63 - t], 1); __syncthreads(); out[t] = n[t]; }
KERNEL(counted_open, "01") { __shared__ int n[64]; const int t = threadIdx.x; n[t] = 0; __syncwarp(); atomicAdd(&n[63 - t], 1); __syncthreads(); out[t] = n[t]; }
KERNEL(added, "") { __shared__ float n[64]; const int t = threadIdx.x; n[t] = 0; __syncthreads(); atomicAdd(&n[t], in[t]); atomicAdd(&n[63 - t], 1.f); __syncthreads(); out[t] = n[t]; }
KERNEL(stuck, "10") { ROW; row[t] = in[t]; if (t < 32) { bar(1, 64); bar(2, 64); } else { bar(2, 64); bar(1, 64); } out[t] = row[63 - t]; }
KERNEL(nowhere, "") { ROW; row[t] = 0; __syncthreads(); row[(int)in[t] & 63] = 1; __syncthreads(); out[t] = row[63 - t]; }

__device__ __forceinline__ float other(const float *p) {
    uint32_t there, rank; float x;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at(p)), "r"(1 - rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(there) : "memory");
    return x;
}
__device__ __forceinline__ void cluster() { asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory"); }
KERNEL(clustered, "") { ROW; row[t] = in[t]; cluster(); out[blockIdx.x * 64 + t] = other(row + 63 - t); cluster(); }
KERNEL(clustered_open, "01 07") { ROW; row[t] = in[t]; __syncthreads(); out[blockIdx.x * 64 + t] = other(row + 63 - t); cluster(); }
KERNEL(clustered_ended, "07") { ROW; row[t] = in[t]; cluster(); out[blockIdx.x * 64 + t] = other(row + 63 - t); }
__device__ __forceinline__ unsigned half(int t) { return 0xffffu << (t & 16); }
KERNEL(halves, "") { ROW; row[t] = in[t]; __syncwarp(half(t)); out[t] = row[t ^ 8]; }
KERNEL(halves_open, "04") { ROW; row[t] = in[t]; __syncwarp(half(t)); out[t] = row[t ^ 16]; }
KERNEL(halves_chained, "") { ROW; row[t] = in[t]; __syncwarp(half(t)); if (t % 16 < 8) { __syncwarp(0x00ff00ff); out[t] = row[t ^ 24]; } }
KERNEL(ring, "") {
    __shared__ float rows[2][32]; __shared__ uint64_t full[2], empty[2]; const int lane = threadIdx.x % 32;
    if (threadIdx.x == 0) { for (int i = 0; i < 2; ++i) { init(full[i], 32); init(empty[i], 32); } }
    __syncthreads();
    for (int i = 0; i < 3; ++i) {
        const int stage = i % 2, phase = i / 2;
        if (threadIdx.x < 32) { wait(full[stage], phase); out[32 * i + lane] = rows[stage][31 - lane]; arrive(empty[stage]); }
        else { wait(empty[stage], phase ^ 1); rows[stage][lane] = in[32 * i + lane]; arrive(full[stage]); }
    }
}
KERNEL(summed, "05") { ROW; float x = in[t]; for (int i = 16; i; i /= 2) { x += __shfl_xor_sync(~0u, x, i); } row[t / 32] = x; __syncthreads(); out[t] = row[t / 32 ^ 1]; }
// As the pipelines of libcu++, whose counts come from shared memory: what is waited for is not followed.
KERNEL(count_on_data, "") {
    ROW; if (t == 0) { init(b[0], int(in[64])); init(b[1], int(in[65])); } __syncthreads();
    for (int i = 0; i < 4; ++i) {
        if (t < 32) { wait(b[0], i & 1 ^ 1); row[t] = in[32 * i + t]; arrive(b[1]); }
        else { wait(b[1], i & 1); out[32 * i + t] = row[t - 32]; arrive(b[0]); }
    }
}
KERNEL(clustered_added, "") {
    ROW; row[t] = in[t]; fence();
    if (t == 0) { init(b[0], 1); asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 256;" ::"r"(at(b)) : "memory"); }
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (t == 0)
        asm volatile("{\n.reg .u32 r, to, by;\nmov.u32 r, %%cluster_ctarank;\nxor.b32 r, r, 1;\n"
                     "mapa.shared::cluster.u32 to, %0, r;\nmapa.shared::cluster.u32 by, %1, r;\n"
                     "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [to], [%0], 256, [by];\n}"
                     ::"r"(at(row)), "r"(at(b)) : "memory");
    wait(b[0], 0); out[t] = row[63 - t];
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// What some lanes do alone, and what reconvergence does not order.
KERNEL(reconverged, "04") { ROW; if (t == 0) { for (int i = 0; i < 4; ++i) { row[i] = in[i] * 2; } } if (t < 4) { out[t] = row[3 - t]; } }
KERNEL(lane_arrives, "01") {
    ROW; if (t == 0) { init(b[0], 1); } __syncthreads();
    if (t < 32) { row[t] = in[t]; if (t == 0) { arrive(b[0]); } } else { wait(b[0], 0); out[t] = row[t ^ 33]; }
}
KERNEL(lane_arrives_synced, "") {
    ROW; if (t == 0) { init(b[0], 1); } __syncthreads();
    if (t < 32) { row[t] = in[t]; __syncwarp(); if (t == 0) { arrive(b[0]); } } else { wait(b[0], 0); out[t] = row[t ^ 33]; }
}
KERNEL(lane_waits, "01") {
    ROW; if (t == 0) { init(b[0], 32); } __syncthreads();
    if (t < 32) { row[t] = in[t]; arrive(b[0]); } else { if (t == 32) { wait(b[0], 0); } out[t] = row[t - 32]; }
}
KERNEL(lane_waits_synced, "") {
    ROW; if (t == 0) { init(b[0], 32); } __syncthreads();
    if (t < 32) { row[t] = in[t]; arrive(b[0]); } else { if (t == 32) { wait(b[0], 0); } __syncwarp(); out[t] = row[t - 32]; }
}
// Of 128 threads: which of four warps meet at a barrier of two.
__device__ __forceinline__ void come(int b, int n) { asm volatile("bar.arrive %0, %1;" ::"r"(b), "r"(n) : "memory"); }
#define WIDE __shared__ float row[128]; const int t = threadIdx.x
KERNEL(wide_pairs, "01") { WIDE; row[t] = in[t]; bar(1, 64); out[t] = row[t ^ 32]; }
KERNEL(wide_named_pairs, "") { WIDE; row[t] = in[t]; bar(1 + t / 64, 64); out[t] = row[t ^ 32]; }
KERNEL(wide_too_many, "01") { WIDE; if (t < 96) { row[t] = in[t]; come(1, 64); } else { bar(1, 64); out[t] = row[t - 96]; } }
KERNEL(wide_too_many_late, "01") { WIDE; if (t >= 32) { row[t] = in[t]; come(1, 64); } else { bar(1, 64); out[t] = row[t + 96]; } }
KERNEL(wide_ping_pong, "") {
    WIDE;
    for (int i = 0; i < 4; ++i) {
        if (t < 64) { row[t] = in[t + i]; come(1, 128); bar(2, 128); } else { bar(1, 128); out[t] = row[t - 64]; come(2, 128); }
    }
}
// Updates that are lost, flags, locks.
KERNEL(lost, "01") { __shared__ int n[8]; const int t = threadIdx.x; if (t < 8) { n[t] = 0; } __syncthreads(); if (t < 32) { n[t / 4]++; } __syncthreads(); out[t] = n[t % 8]; }
KERNEL(flag_early, "01 08") {
    ROW; __shared__ volatile int flag; if (t == 0) { flag = 0; } __syncthreads();
    if (t == 0) { flag = 1; __threadfence_block(); row[0] = in[t]; __threadfence_block(); }
    else if (t == 32) { while (!flag) {} __threadfence_block(); out[t] = row[0]; }
}
__device__ __forceinline__ void release(int *p) { asm volatile("st.release.cta.b32 [%0], 1;" ::"l"(p) : "memory"); }
__device__ __forceinline__ void relaxed(int *p) { asm volatile("st.relaxed.cta.b32 [%0], 1;" ::"l"(p) : "memory"); }
__device__ __forceinline__ int acquire(int *p) { int x; asm volatile("ld.acquire.cta.b32 %0, [%1];" : "=r"(x) : "l"(p) : "memory"); return x; }
KERNEL(message, "") {
    ROW; __shared__ int flag; if (t == 0) { flag = 0; } __syncthreads();
    if (t == 0) { row[0] = in[t]; release(&flag); } else if (t == 32) { while (!acquire(&flag)) {} out[t] = row[0]; }
}
KERNEL(message_relaxed, "01") {
    ROW; __shared__ int flag; if (t == 0) { flag = 0; } __syncthreads();
    if (t == 0) { row[0] = in[t]; relaxed(&flag); } else if (t == 32) { while (!acquire(&flag)) {} out[t] = row[0]; }
}
KERNEL(wide_two_of_three, "01") {
    WIDE; __shared__ int flag[3]; if (t < 3) { flag[t] = 0; } __syncthreads();
    if (t % 32 == 0 && t) { row[t / 32] = in[t]; release(flag + t / 32 - 1); }
    else if (t == 0) { while (!acquire(flag)) {} while (!acquire(flag + 1)) {} out[t] = row[1] + row[2] + row[3]; }
}
KERNEL(locked, "") {
    ROW; __shared__ int lock; if (t == 0) { lock = 0; row[0] = 0; } __syncthreads();
    if (t % 32 == 0) { while (atomicCAS(&lock, 0, 1)) {} __threadfence_block(); row[0] += in[t]; __threadfence_block(); atomicExch(&lock, 0); }
    __syncthreads(); out[t] = row[0];
}
KERNEL(tickets, "") {
    ROW; __shared__ int next; __shared__ volatile int serving; if (t == 0) { next = serving = 0; row[0] = 0; } __syncthreads();
    if (t % 32 == 0) { const int mine = atomicAdd(&next, 1); while (serving != mine) {} __threadfence_block(); row[0] += in[t]; __threadfence_block(); serving = mine + 1; }
    __syncthreads(); out[t] = row[0];
}
KERNEL(tried_first, "") {
    ROW; __shared__ int lock; if (t == 0) { lock = 0; row[0] = 0; } __syncthreads();
    if (t % 32 == 0) { if (atomicExch(&lock, 1)) { do { while (acquire(&lock)) {} } while (atomicExch(&lock, 1)); } row[0] += in[t]; __threadfence_block(); atomicExch(&lock, 0); }
    __syncthreads(); out[t] = row[0];
}
KERNEL(locked_before, "01") {
    ROW; __shared__ int lock; if (t == 0) { lock = 0; } __syncthreads();
    if (t % 32 == 0) { while (atomicCAS(&lock, 0, 1)) {} atomicExch(&lock, 0); }
    __syncthreads(); row[t] = in[t]; __syncwarp(); out[t] = row[63 - t];
}
// Threads read, or write, what the next copy overwrites; and a lane that has started a copy for its warp.
__device__ __forceinline__ void come_in(float *row, const float *in, uint64_t &b) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 256;" ::"r"(at(&b)) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];" ::"r"(at(row)), "l"(in), "r"(at(&b)) : "memory");
}
#define TWICE(order) \
    ROW; if (t == 0) { init(b[0], 1); } __syncthreads(); if (t == 0) { come_in(row, in, b[0]); } \
    wait(b[0], 0); out[t] = row[t]; order; if (t == 0) { come_in(row, in + 64, b[0]); } wait(b[0], 1); out[64 + t] = row[t]
KERNEL(overwritten, "09") { TWICE(__syncthreads()); }
KERNEL(overwritten_fenced, "") { TWICE(fence(); __syncthreads()); }
KERNEL(overwritten_open, "02") { TWICE(); }
KERNEL(cleared, "09") { ROW; if (t == 0) { init(b[0], 1); } __syncthreads(); row[t] = 0; __syncthreads(); if (t == 0) { come_in(row, in, b[0]); } wait(b[0], 0); out[t] = row[t]; }
KERNEL(cleared_fenced, "") { ROW; if (t == 0) { init(b[0], 1); } __syncthreads(); row[t] = 0; fence(); __syncthreads(); if (t == 0) { come_in(row, in, b[0]); } wait(b[0], 0); out[t] = row[t]; }
KERNEL(lane_leaves, "04") { ROW; if (t < 32) { row[t] = row[t + 32] = in[t]; fence(); if (t == 0) { leave(out, row); left(); } } }
KERNEL(lane_leaves_synced, "") { ROW; if (t < 32) { row[t] = row[t + 32] = in[t]; fence(); __syncwarp(); if (t == 0) { leave(out, row); left(); } } }
// Both blocks of a cluster store a word of one sum, which are then read as one.
#define STORED(word) \
    __shared__ __align__(8) float sums[2]; __shared__ uint64_t b; const int t = threadIdx.x; unsigned to, bar; \
    if (t == 0) { init(b, 1); asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 8;" ::"r"(at(&b)) : "memory"); } cluster(); \
    asm volatile("mapa.shared::cluster.u32 %0, %2, %4;\nmapa.shared::cluster.u32 %1, %3, %4;" : "=r"(to), "=r"(bar) : "r"(at(sums + (word))), "r"(at(&b)), "r"(t & 1)); \
    if (t < 2) asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(to), "f"(in[t]), "r"(bar) : "memory"); \
    wait(b, 0); out[blockIdx.x * 64 + t] = sums[0] + sums[1]; cluster()
KERNEL(clustered_sums, "") { STORED(blockIdx.x & 1); }
KERNEL(clustered_sum, "02") { STORED(0); }
// In global memory, which the test names.
KERNEL(words_halved, "20") { out[threadIdx.x / 2] = in[threadIdx.x]; }
KERNEL(words_alike, "21") { out[blockIdx.y] = 1; }
KERNEL(words_updated, "20") { out[threadIdx.x & 7] += 1; }
KERNEL(words_added, "") { atomicAdd(out + (threadIdx.x & 7), in[threadIdx.x]); }
KERNEL(words_cleared, "20") { if (threadIdx.x == 0) { out[0] = 0; } __syncwarp(); atomicAdd(out, in[threadIdx.x]); }
KERNEL(words_read_back, "20") { out[threadIdx.x] = in[threadIdx.x]; ((volatile float *)out)[63 - threadIdx.x]; }
KERNEL(words_synced, "") { out[threadIdx.x] = in[threadIdx.x]; __syncthreads(); if (threadIdx.x == 0) { out[0] += out[63]; } }
// The same words in blocks of a grid that are far from each other; with one block, nothing.
KERNEL(words_of_40th, "") { out[blockIdx.x % 40 * 64 + threadIdx.x] = blockIdx.x; }
KERNEL(words_of_rows, "") { out[(blockIdx.x / 24 * 12 + blockIdx.x % 12) * 64 + threadIdx.x] = blockIdx.x; }
KERNEL(words_of_ends, "") { out[(blockIdx.x < 60 ? blockIdx.x : 140 - blockIdx.x) * 64 + threadIdx.x] = blockIdx.x; }
KERNEL(words_of_each, "") { out[(blockIdx.x / 12 * 12 + blockIdx.x % 12) * 64 + threadIdx.x] = blockIdx.x; }
// A block that differs from the others by what it does not wait for.
KERNEL(unmet_in_100, "") { ROW; row[t] = in[t]; asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %0, 100;\n@p bar.sync 0;\n}" ::"r"(blockIdx.x) : "memory"); out[64 * blockIdx.x + t] = row[63 - t]; }
KERNEL(unfenced_in_100, "") { ROW; row[t] = in[t]; asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %0, 100;\n@p fence.proxy.async.shared::cta;\n}" ::"r"(blockIdx.x) : "memory"); __syncthreads(); if (t == 0) { leave(out + 64 * blockIdx.x, row); left(); } }
KERNEL(apart_in_100, "") { ROW; row[t] = in[t]; if (blockIdx.x != 100) { __syncwarp(); } out[64 * blockIdx.x + t] = row[t ^ 1]; }
