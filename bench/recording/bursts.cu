// What memory of an H100 takes if many loads are asked for at a time, rows are parts of lines, or SMs read the same
// lines; what goes on behind accesses to shared memory that conflict, and how many of them a warp issues before it has to
// wait: bench/recording/latencies.py compiles and runs it.
//
// A line per measurement on stdout, as latencies.cu prints them. `bursts issues` prints only how many are issued, and what
// stores of parts of sectors take; `bursts launches` only launches kernels for ncu: of how many instructions' code, at
// once or behind a jump, and of loads that nothing has cached.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <string>
#include <vector>

const int REPEATS = 5;
const int STEPS = 16; // bursts of a block, one after the other
const size_t LARGE = size_t(3) << 30, FLUSHED = size_t(256) << 20;
const int SHARED_BYTES = 96 << 10; // one block per SM

#define CHECK(call)                                                                                     \
    do {                                                                                                \
        cudaError_t status = call;                                                                      \
        if (status != cudaSuccess) {                                                                    \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(status)); \
            exit(1);                                                                                    \
        }                                                                                               \
    } while (0)

__device__ __forceinline__ long long now() {
    long long cycles;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles)::"memory");
    return cycles;
}

// Where a block's lanes read or write: rows of `row` bytes that are `pitch` apart, each step `advance` further; groups
// of blocks have the same addresses, which are `apart` from the next group's.
struct Places {
    unsigned row, pitch;
    size_t advance, apart;
    int groups;
};

// The place of a thread's word of a step's `number`th access of all threads.
template <class Word> __device__ __forceinline__ char *place(char *from, const Places &at, int number) {
    const unsigned chunk = number * blockDim.x + threadIdx.x, per_row = at.row / sizeof(Word);
    return from + blockIdx.x % at.groups * at.apart + size_t(chunk / per_row) * at.pitch + chunk % per_row * sizeof(Word);
}

__device__ __forceinline__ unsigned load(const char *from) {
    unsigned x;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(x) : "l"(from) : "memory");
    return x;
}
__device__ __forceinline__ unsigned to_shared(const void *at) { return static_cast<unsigned>(__cvta_generic_to_shared(at)); }

__device__ __forceinline__ void store(char *to, unsigned x) { asm volatile("st.global.u32 [%0], %1;" ::"l"(to), "r"(x) : "memory"); }
__device__ __forceinline__ void store(char *to, uint4 x) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
}

// All threads ask for `LOADS` words, and wait for them and for each other: cycles of all bursts, of each block.
template <class Word, int LOADS> __global__ void __launch_bounds__(1024) burst(long long *out, char *from, Places at, int passes) {
    extern __shared__ __align__(16) char tile[];
    unsigned sum = 0;
    const char *start_at[LOADS];
#pragma unroll
    for (int number = 0; number < LOADS; ++number) start_at[number] = place<Word>(from, at, number);
    for (int pass = 0; pass < passes; ++pass) {
        const char *next[LOADS];
#pragma unroll
        for (int number = 0; number < LOADS; ++number) next[number] = start_at[number];
        __syncthreads();
        long long start = now();
#pragma unroll 1
        for (int step = 0; step < STEPS; ++step) {
            if (sizeof(Word) == 16) { // without registers, as ptxas waits early to spare them
#pragma unroll
                for (int number = 0; number < LOADS; ++number) {
                    unsigned to = to_shared(tile) + (number * blockDim.x + threadIdx.x) * 16 % (64 << 10);
                    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(next[number]) : "memory");
                    next[number] += at.advance;
                }
                asm volatile("cp.async.wait_all;" ::: "memory");
            } else {
                sum ^= load(next[0]), next[0] += at.advance;
                if (sum == 12345) out[1024 + threadIdx.x] = sum; // so that it has come before the barrier
            }
            __syncthreads();
        }
        if (threadIdx.x == 0) out[blockIdx.x] = now() - start;
    }
}

// Stores without end: cycles of each block until all of its stores are done.
template <class Word> __global__ void __launch_bounds__(1024) write(long long *out, char *to, Places at, int steps, int passes) {
    const Word x{};
    char *first = place<Word>(to, at, 0);
    for (int pass = 0; pass < passes; ++pass) {
        char *next = first;
        __syncthreads();
        long long start = now();
#pragma unroll 4
        for (int step = 0; step < steps; ++step, next += at.advance) store(next, x);
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) out[blockIdx.x] = now() - start;
    }
}

// -------------------------------------------------------------------------------- behind shared memory

enum Access { LOAD, STORE, ATOMIC, ATOMIC_RETURNS, GLOBAL_LOAD, GLOBAL_STORE };

template <Access access> __device__ __forceinline__ unsigned use(unsigned address, unsigned one) {
    unsigned x = 0;
    if (access == LOAD) asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(x) : "r"(address) : "memory");
    if (access == STORE) asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(address), "r"(one) : "memory");
    if (access == ATOMIC) asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(address), "r"(one) : "memory");
    if (access == ATOMIC_RETURNS)
        asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(x) : "r"(address), "r"(one) : "memory");
    return x;
}

// A load that misses L1 behind `COUNT` accesses to shared memory whose lanes are `apart` bytes apart; and those alone.
template <Access access, int COUNT, bool loads> __global__ void behind(long long *out, const uint64_t *from, int apart, unsigned one) {
    extern __shared__ __align__(16) char tile[];
    unsigned *held = reinterpret_cast<unsigned *>(tile);
    held[threadIdx.x] = 0;
    unsigned address = to_shared(held) + threadIdx.x % 32 * apart + threadIdx.x / 32 * 4;
    uint64_t at = reinterpret_cast<uint64_t>(from + threadIdx.x / 32 * 16);
    long long start = 0;
    unsigned sum = 0;
#pragma unroll 1
    for (int turn = 0; turn < 40; ++turn) {
        if (turn == 8) start = now();
        unsigned x[COUNT];
#pragma unroll
        for (int number = 0; number < COUNT; ++number) x[number] = use<access>(address, one);
        if (loads) {
            __syncwarp(); // over which ptxas moves no access
            asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(at)::"memory");
            asm volatile("{\n.reg .pred p;\nsetp.eq.u64 p, %0, 0;\n@p trap;\n}" ::"l"(at) : "memory");
        }
#pragma unroll
        for (int number = 0; number < COUNT; ++number) sum ^= x[number];
    }
    if (threadIdx.x == 0) out[0] = now() - start;
    out[1024 + threadIdx.x] = sum;
}

// Cycles until `COUNT` accesses of a warp are issued; with `again`, in a loop that writes the register that each has stored.
// The warps of one sub-core of four do so at a time, or of all. Lanes are `apart` bytes apart.
template <Access access, int COUNT, bool again> __global__ void issued(long long *out, char *from, int apart, unsigned one, int sub_cores) {
    extern __shared__ __align__(16) char tile[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned address = to_shared(tile) + lane * apart;
    char *at = from + size_t(warp) * COUNT * 32 * apart + lane * apart;
    long long start = 0, end = 0;
    unsigned sum = 0;
#pragma unroll 1
    for (int pass = 0; pass < 3; ++pass) {
        unsigned x[COUNT], given = one;
        __syncthreads();
        if (warp % 4 < sub_cores) {
            start = now();
#pragma unroll 1
            for (int number = 0; number < (again ? COUNT : 0); ++number) {
                if (access == STORE) use<access>(address, given);
                else store(at + number * 32 * apart, given);
                asm volatile("mad.lo.u32 %0, %0, %0, %1;" : "+r"(given) : "r"(one) : "memory");
            }
#pragma unroll
            for (int number = 0; number < (again ? 0 : COUNT); ++number) {
                if (access == GLOBAL_LOAD) x[number] = load(at + number * 32 * apart);
                else if (access == GLOBAL_STORE) store(at + number * 32 * apart, given), x[number] = 0;
                else x[number] = use<access>(address, given);
            }
            end = now();
#pragma unroll
            for (int number = 0; number < (again ? 0 : COUNT); ++number) sum ^= x[number];
            sum ^= given;
        }
    }
    if (lane == 0) out[warp] = warp % 4 < sub_cores ? end - start : 0;
    out[1024 + threadIdx.x] = sum;
}

// A chain of 32 additions with branches, or atomics.
template <int what> __global__ void chain(long long *out, unsigned one, unsigned zero) {
    extern __shared__ __align__(16) char tile[];
    unsigned *held = reinterpret_cast<unsigned *>(tile);
    unsigned lane = threadIdx.x % 32, address = to_shared(held) + lane * 4, x = one;
    long long start = 0;
#pragma unroll 1
    for (int pass = 0; pass < 3; ++pass) {
        start = now();
        if (what == 2)
#pragma unroll 1
            for (int step = 0; step < 32; ++step) asm volatile("mad.lo.u32 %0, %0, %0, %1;" : "+r"(x) : "r"(one + lane) : "memory");
#pragma unroll
        for (int step = 0; step < 32; ++step) {
            if (what == 1) asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, %0, %1;\n@p bra L%=;\nadd.u32 %0, %0, %2;\nL%=:\n}" : "+r"(x) : "r"(zero), "r"(one) : "memory");
            if (what == 3) asm volatile("atom.shared.add.u32 %0, [%1], %0;" : "+r"(x) : "r"(address) : "memory");
            if (what == 4) asm volatile("atom.shared.add.u32 %0, [%1], %0;" : "+r"(x) : "r"(address - lane * 4) : "memory");
        }
        start = now() - start;
    }
    if (threadIdx.x == 0) out[0] = start;
    out[1024 + threadIdx.x] = x;
}

// ------------------------------------------------------------------------------------------- for ncu

// `COUNT` instructions in a row, which need no others.
template <int COUNT> __device__ __forceinline__ void straight(float (&x)[8], float a) {
#pragma unroll
    for (int number = 0; number < COUNT; ++number) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x[number % 8]) : "f"(a));
}
__device__ __forceinline__ void keep(float *to, const float (&x)[8], float a) {
    if (x[0] + x[1] + x[2] + x[3] + x[4] + x[5] + x[6] + x[7] == 12345.0f) *to = a;
}
template <int COUNT> __global__ void code(float *to, float a) {
    float x[8] = {a, a + 1, a + 2, a + 3, a + 4, a + 5, a + 6, a + 7}; // ptxas makes one of eight that are equal
    straight<COUNT>(x, a);
    keep(to, x, a);
}
// As many instructions that are never executed are in between.
template <int COUNT> __global__ void jump(float *to, float a, int never) {
    float x[8] = {a, a + 1, a + 2, a + 3, a + 4, a + 5, a + 6, a + 7}; // ptxas makes one of eight that are equal
    straight<32>(x, a);
    if (never) straight<COUNT>(x, a);
    straight<32>(x, a);
    keep(to, x, a);
}
// Loads that miss all caches, each of whose address is the last one's result.
template <int COUNT> __global__ void hops(uint64_t *to, const uint64_t *from) {
    uint64_t at = reinterpret_cast<uint64_t>(from + (blockIdx.x * blockDim.x + threadIdx.x));
#pragma unroll
    for (int number = 0; number < COUNT; ++number) at = *reinterpret_cast<const uint64_t *>(at);
    to[blockIdx.x * blockDim.x + threadIdx.x] = at;
}
__global__ void empty() {}
template <int BYTES> __global__ void one_barrier(int *to) {
    extern __shared__ __align__(16) char tile[];
    unsigned *held = reinterpret_cast<unsigned *>(tile);
    held[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (held[threadIdx.x ^ 1] == 12345) *to = 1;
}

// ------------------------------------------------------------------------------------------- on the host

long long *out;
char *large;
int processors;

void say(const std::string &name, const char *unit, const std::vector<double> &values) {
    printf("%s\t%s", name.c_str(), unit);
    for (double value : values) printf("\t%.4f", value);
    printf("\n");
    fflush(stdout);
}

std::vector<long long> results(int count) {
    std::vector<long long> values(count);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(values.data(), out, count * sizeof(long long), cudaMemcpyDeviceToHost));
    return values;
}

double mean(const std::vector<long long> &values) {
    double sum = 0;
    for (long long value : values) sum += value;
    return sum / values.size();
}

template <class Kernel> void alone(Kernel kernel) { // nothing of L1 for the SM's other blocks
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
}

template <class Word, int LOADS> void bursts(const std::string &name, int blocks, int threads, Places at, bool cold) {
    std::vector<double> values;
    alone(burst<Word, LOADS>);
    for (int repeat = 0; repeat < REPEATS; ++repeat) {
        CHECK(cudaMemset(large + LARGE - FLUSHED, repeat, FLUSHED));
        burst<Word, LOADS><<<blocks, threads, SHARED_BYTES>>>(out, large, at, cold ? 1 : 3);
        values.push_back(mean(results(blocks)) / STEPS);
    }
    say(name + (cold ? ", DRAM" : ", L2"), "cycles", values);
}

std::string sms(int blocks) { return ", " + std::to_string(blocks) + (blocks == 1 ? " SM" : " SMs"); }

// `lines` of 128 bytes per block and burst, all of its own.
template <class Word, int LOADS> void whole(int lines) {
    int threads = lines * 128 / int(sizeof(Word)) / LOADS;
    for (int blocks : {1, 8, 33, 66, processors})
        for (bool cold : {true, false}) {
            size_t bytes = size_t(lines) * 128;
            if (!cold && bytes * blocks * STEPS > (24 << 20)) continue;
            Places at = {128, 128, bytes * blocks, bytes, blocks};
            bursts<Word, LOADS>("burst of " + std::to_string(lines) + " lines" + sms(blocks), blocks, threads, at, cold);
        }
}

// Bursts of 8 KB in rows that are parts of lines: of a matrix with a pitch of 4 KB, further to the right with each
// step; or each step in rows of its own, 4 KB or a line apart.
void part(unsigned row) {
    for (int blocks : {1, 8, processors})
        for (bool cold : {true, false}) {
            unsigned rows = 8192 / row;
            std::string name = "burst of 8 KB, rows of " + std::to_string(row) + " bytes, ";
            Places tile = {row, 4096, row, size_t(rows) * 4096, blocks};
            bursts<uint4, 8>(name + "of a tile" + sms(blocks), blocks, 64, tile, cold);
            Places apart = {row, 4096 + 128, size_t(rows) * 4224, size_t(rows) * 4224 * STEPS, blocks};
            if (cold && size_t(rows) * 4224 * STEPS * blocks < LARGE - FLUSHED)
                bursts<uint4, 8>(name + "4 KB apart" + sms(blocks), blocks, 64, apart, cold);
            Places lines = {row, 128, size_t(rows) * 128, size_t(rows) * 128 * STEPS, blocks};
            if (cold || size_t(rows) * 128 * STEPS * blocks < (32 << 20))
                bursts<uint4, 8>(name + "a line apart" + sms(blocks), blocks, 64, lines, cold);
        }
}

void same(int groups) {
    for (bool cold : {true, false}) {
        std::string name = ", " + std::to_string(groups) + " groups of SMs";
        Places at = {128, 128, size_t(8192) * groups, 8192, groups};
        bursts<uint4, 8>("burst of 64 lines" + name, processors, 64, at, cold);
        at = {128, 128, size_t(65536) * groups, 65536, groups};
        bursts<uint4, 8>("burst of 512 lines" + name, processors, 512, at, cold);
    }
}

template <class Word> void writes(unsigned row, unsigned pitch, bool large_region) {
    for (int blocks : {1, 8, 33, 66, processors}) {
        const unsigned per_step = 1024 * sizeof(Word), rows = per_step / row;
        const size_t step = size_t(rows) * pitch, region = large_region ? LARGE / 2 : size_t(20) << 20;
        int steps = int(std::min<size_t>(region / step / blocks, 256));
        if (steps < 4) continue;
        std::vector<double> values;
        alone(write<Word>);
        for (int repeat = 0; repeat < REPEATS; ++repeat) {
            write<Word><<<blocks, 1024, SHARED_BYTES>>>(out, large, Places{row, pitch, step, step * steps, blocks}, steps, large_region ? 1 : 3);
            values.push_back(double(steps) * per_step / mean(results(blocks)));
        }
        say("stores of " + std::to_string(sizeof(Word)) + " bytes, rows of " + std::to_string(row) + " bytes, " + std::to_string(pitch) +
                " apart" + sms(blocks) + (large_region ? ", DRAM" : ", L2"),
            "bytes per cycle and SM", values);
    }
}

template <Access access, int COUNT> void behind_of(const std::string &what) {
    for (int warps : {1, 4})
        for (int apart : {4, 128, 0}) {
            std::string name = std::to_string(COUNT) + " " + what + (apart == 4 ? "" : apart ? ", 32 wavefronts" : ", one address") +
                               (warps == 1 ? ", 1 warp" : ", 4 warps");
            std::vector<double> with, without;
            alone(behind<access, COUNT, true>);
            alone(behind<access, COUNT, false>);
            for (int repeat = 0; repeat < REPEATS; ++repeat) {
                const uint64_t *from = reinterpret_cast<const uint64_t *>(large);
                behind<access, COUNT, true><<<1, 32 * warps, SHARED_BYTES>>>(out, from, apart, 1u);
                with.push_back(results(1)[0] / 32.0);
                behind<access, COUNT, false><<<1, 32 * warps, SHARED_BYTES>>>(out, from, apart, 1u);
                without.push_back(results(1)[0] / 32.0);
            }
            say("L2 hit behind " + name, "cycles", with);
            say(name + " in a loop", "cycles", without);
        }
}

template <Access access, int COUNT, bool again> void issued_of(const std::string &what, int apart, int warps, int sub_cores) {
    std::vector<double> values;
    alone(issued<access, COUNT, again>);
    for (int repeat = 0; repeat < REPEATS; ++repeat) {
        issued<access, COUNT, again><<<1, 32 * warps, SHARED_BYTES>>>(out, large, apart, 1u, sub_cores);
        std::vector<long long> taken = results(warps);
        values.push_back(double(*std::max_element(taken.begin(), taken.end())));
    }
    say(std::to_string(COUNT) + " " + what + (again ? ", each source written again" : "") + ", lanes " + std::to_string(apart) +
            " bytes apart, issued by " + std::to_string(warps / 4 * sub_cores + (warps == 1)) + " warps of " + std::to_string(sub_cores) + " sub-cores",
        "cycles", values);
}

template <Access access, int COUNT> void issued_by(const std::string &what, int apart) {
    for (int warps : {1, 8, 16}) issued_of<access, COUNT, false>(what, apart, warps, 1);
    for (int warps : {8, 32}) issued_of<access, COUNT, false>(what, apart, warps, 4);
    if (access == STORE || access == GLOBAL_STORE) issued_of<access, COUNT, true>(what, apart, 1, 1);
}

template <int COUNT> void issues() {
    for (int apart : {4, 32, 128}) {
        issued_by<LOAD, COUNT>("LDS", apart);
        issued_by<STORE, COUNT>("STS", apart);
        issued_by<GLOBAL_LOAD, COUNT>("LDG", apart);
        issued_by<GLOBAL_STORE, COUNT>("STG", apart);
    }
}

void all_issues() {
    issues<1>(), issues<2>(), issues<4>(), issues<6>(), issues<8>(), issues<12>(), issues<16>(), issues<24>(), issues<32>(), issues<48>();
}

template <int what> void chain_of(const std::string &name) {
    std::vector<double> values;
    alone(chain<what>);
    for (int repeat = 0; repeat < REPEATS; ++repeat) {
        chain<what><<<1, 32, SHARED_BYTES>>>(out, 1u, 0u);
        values.push_back(results(1)[0] / 32.0);
    }
    say(name, "cycles", values);
}

template <int COUNT> void code_of() {
    for (int blocks : {1, processors}) code<COUNT><<<blocks, 128>>>(reinterpret_cast<float *>(large), 1.0f);
    CHECK(cudaDeviceSynchronize());
}
template <int COUNT> void jump_of() {
    jump<COUNT><<<processors, 128>>>(reinterpret_cast<float *>(large), 1.0f, 0);
    CHECK(cudaDeviceSynchronize());
}
template <int COUNT> void hops_of() {
    for (int blocks : {1, processors})
        for (int threads : {32, 256, 1024})
            hops<COUNT><<<blocks, threads>>>(reinterpret_cast<uint64_t *>(large + LARGE / 2), reinterpret_cast<const uint64_t *>(large));
    CHECK(cudaDeviceSynchronize());
}

template <int BYTES> void one_barrier_of() {
    alone(one_barrier<BYTES>);
    for (int blocks : {1, processors, 2 * processors, 8 * processors}) one_barrier<BYTES><<<blocks, 256, BYTES>>>(reinterpret_cast<int *>(large));
    CHECK(cudaDeviceSynchronize());
}

void launches() {
    std::vector<uint64_t> own(1 << 20);
    for (size_t word = 0; word < own.size(); ++word) // each hop is to another megabyte
        own[word] = reinterpret_cast<uint64_t>(large) + (word * 8 + (1 << 20)) % (own.size() * 8);
    CHECK(cudaMemcpy(large, own.data(), own.size() * 8, cudaMemcpyHostToDevice));
    for (int repeat = 0; repeat < 3; ++repeat) {
        for (int blocks : {1, 66, processors, 2 * processors, 4 * processors, 8 * processors})
            for (int threads : {32, 64, 128, 256, 512, 1024}) empty<<<blocks, threads>>>();
        one_barrier_of<4 << 10>(), one_barrier_of<SHARED_BYTES>();
        code_of<16>(), code_of<64>(), code_of<128>(), code_of<192>(), code_of<256>(), code_of<320>(), code_of<384>();
        code_of<512>(), code_of<768>(), code_of<1024>(), code_of<1536>(), code_of<2048>(), code_of<4096>();
        jump_of<64>(), jump_of<256>(), jump_of<512>(), jump_of<1024>(), jump_of<4096>();
        hops_of<1>(), hops_of<2>(), hops_of<3>();
    }
}

int main(int count, char **words) {
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    processors = properties.multiProcessorCount;
    CHECK(cudaMalloc(&large, LARGE));
    CHECK(cudaMemset(large, 0, LARGE));
    CHECK(cudaMalloc(&out, 1 << 20));
    if (count > 1 && !strcmp(words[1], "launches")) {
        launches();
        CHECK(cudaDeviceSynchronize());
        return 0;
    }
    printf("gpu\t%s, %d SMs\n", properties.name, processors);
    all_issues();
    writes<unsigned>(4, 32, false);
    writes<unsigned>(4, 128, false);
    writes<unsigned>(4, 32, true);
    if (count > 1 && !strcmp(words[1], "issues")) return 0;
    whole<unsigned, 1>(1);
    whole<unsigned, 1>(2);
    whole<unsigned, 1>(4);
    whole<unsigned, 1>(16);
    whole<unsigned, 1>(32);
    whole<uint4, 8>(64);
    whole<uint4, 8>(256);
    whole<uint4, 8>(1024);
    part(16);
    part(32);
    part(64);
    for (int groups : {1, 2, 4, 12, 33, processors}) same(groups);
    for (bool dram : {false, true}) {
        writes<uint4>(128, 128, dram);
        writes<uint4>(128, 4096 + 128, dram);
        writes<uint4>(64, 4096 + 128, dram);
        writes<uint4>(32, 4096 + 128, dram);
        writes<uint4>(16, 4096 + 128, dram);
        writes<uint4>(16, 128, dram);
        writes<unsigned>(128, 128, dram);
        writes<unsigned>(32, 4096 + 128, dram);
        writes<unsigned>(4, 4096 + 128, dram);
    }
    // Words that hold their own addresses, for the loads behind shared memory.
    std::vector<uint64_t> own(4096);
    for (size_t word = 0; word < own.size(); ++word) own[word] = reinterpret_cast<uint64_t>(large) + word * 8;
    CHECK(cudaMemcpy(large, own.data(), own.size() * 8, cudaMemcpyHostToDevice));
    behind_of<LOAD, 1>("LDS");
    behind_of<LOAD, 4>("LDS");
    behind_of<STORE, 1>("STS");
    behind_of<STORE, 4>("STS");
    behind_of<ATOMIC, 1>("ATOMS that return nothing");
    behind_of<ATOMIC, 4>("ATOMS that return nothing");
    behind_of<ATOMIC_RETURNS, 1>("ATOMS");
    behind_of<ATOMIC_RETURNS, 4>("ATOMS");
    chain_of<1>("ISETP, BRA not taken and IADD3");
    chain_of<2>("loop of an IMAD");
    chain_of<3>("ATOMS.ADD");
    chain_of<4>("ATOMS.ADD, one address");
    return 0;
}
