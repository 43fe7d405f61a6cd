// CUDA's words for g++, as far as bench/attacks/adversary_kernels.py writes them: the threads of a block are fibers that take
// turns at __syncthreads, blocks run one after the other. It shares nothing with our emulator, so that it can judge it.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <type_traits>
#include <ucontext.h>
#include <unistd.h>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

// A number of two bytes, which takes part in expressions as CUDA's does.
struct __half {
    _Float16 value;
    __half() = default;
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T> || std::is_enum_v<T>>>
    __half(T from) : value(static_cast<_Float16>(from)) {}
    operator float() const { return value; }
    __half &operator+=(const __half &by) { return value += by.value, *this; }
    __half &operator-=(const __half &by) { return value -= by.value, *this; }
};
inline __half operator+(const __half &a, const __half &b) { return static_cast<float>(a.value + b.value); }
inline __half operator-(const __half &a, const __half &b) { return static_cast<float>(a.value - b.value); }
inline __half operator*(const __half &a, const __half &b) { return static_cast<float>(a.value * b.value); }
inline bool operator>(const __half &a, const __half &b) { return a.value > b.value; }

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};
inline dim3 threadIdx, blockIdx, blockDim, gridDim;  // not static: they are no constants to g++ either

namespace shim {
constexpr int MOST_THREADS = 256;
constexpr size_t STACK = 1 << 16, DYNAMIC = 1 << 16;
struct Fiber {
    ucontext_t context;
    bool done;
    int barriers;
};
static Fiber fibers[MOST_THREADS];
static ucontext_t scheduler;
static int running;
static long long ticks;
alignas(16) static unsigned char dynamic[DYNAMIC];
static std::function<void()> kernel;

static void thread() {
    kernel();
    fibers[running].done = true;
    swapcontext(&fibers[running].context, &scheduler);
}

// One launch. All threads that still run must meet at the same barrier: a kernel that does otherwise is none of ours.
static void launch(dim3 grid, dim3 block, std::function<void()> body) {
    static unsigned char *stacks = static_cast<unsigned char *>(
        mmap(nullptr, STACK * MOST_THREADS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    kernel = std::move(body);
    gridDim = grid, blockDim = block, ticks = 0;
    const int threads = block.x * block.y;
    for (unsigned b = 0; b < grid.x * grid.y; ++b) {
        blockIdx = {b % grid.x, b / grid.x, 0};
        for (int t = 0; t < threads; ++t) {
            Fiber &fiber = fibers[t];
            getcontext(&fiber.context);
            fiber.context.uc_stack.ss_sp = stacks + STACK * t;
            fiber.context.uc_stack.ss_size = STACK;
            fiber.context.uc_link = &scheduler;
            fiber.done = false, fiber.barriers = 0;
            makecontext(&fiber.context, thread, 0);
        }
        for (int left = threads, round = 1; left > 0; ++round) {
            left = 0;
            for (running = 0; running < threads; ++running) {
                if (fibers[running].done) continue;
                threadIdx = {running % block.x, running / block.x, 0};
                swapcontext(&scheduler, &fibers[running].context);
                left += !fibers[running].done;
                if (!fibers[running].done && fibers[running].barriers != round) abort();
            }
        }
    }
}
}  // namespace shim

inline void __syncthreads() {
    ++shim::fibers[shim::running].barriers;
    swapcontext(&shim::fibers[shim::running].context, &shim::scheduler);
}
inline void __threadfence() {}
inline long long clock64() { return shim::ticks += 3; }
inline int ticks_of_thread() { return static_cast<int>(shim::ticks += 3); }
#define clock ticks_of_thread
template <class T, class U>
T atomicAdd(T *at, U by) {
    T old = *at;
    *at = static_cast<T>(old + by);
    return old;
}
template <class T, class U>
T atomicMax(T *at, U other) {
    T old = *at;
    if (*at < other) *at = static_cast<T>(other);
    return old;
}
template <class T>
T __ldg(const T *at) { return *at; }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }

// The comparison of two versions of a kernel. Every buffer lies between guards, which are compared with it: a version
// that reads or writes past its end meets bytes that are the same in both, and is told by them.
namespace shim {
constexpr size_t GUARD = 1 << 13;
enum Fill { RANDOM, ZEROS, ONES, UNSET };

template <class T>
struct Buffer {
    std::vector<unsigned char> bytes;
    Buffer(size_t count, Fill fill, unsigned seed) : bytes(2 * GUARD + count * sizeof(T)) {
        unsigned state = seed * 2654435761u + 12345u;
        for (unsigned char &byte : bytes) byte = static_cast<unsigned char>((state = state * 1664525u + 1013904223u) >> 24);
        for (size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
            state = state * 1664525u + 1013904223u;
            at()[static_cast<ptrdiff_t>(i) - static_cast<ptrdiff_t>(GUARD / sizeof(T))] = static_cast<T>(state >> 20);
        }
        for (size_t i = 0; i < count; ++i)
            if (fill != RANDOM) at()[i] = static_cast<T>(fill == ZEROS ? 0 : fill == ONES ? 1 : -1);
    }
    T *at() { return reinterpret_cast<T *>(bytes.data() + GUARD); }
};

struct Case {
    dim3 grid, block;
    Fill data, other;
    int n, flag;
    unsigned seed;
};

// What a program of ours is called with: see `Launch` in bench/attacks/adversary_kernels.py.
template <class T>
using Entry = void (*)(T *x, T *y, T *g, int *c, int n, int flag, int seed);

template <class T>
std::vector<unsigned char> results(Entry<T> entry, const Case &made) {
    Buffer<T> x(4096, made.data, made.seed), y(8192, UNSET, 1), g(4096, made.other, made.seed + 1);
    Buffer<int> c(4096, ZEROS, 2);
    memset(dynamic, 0x5a, sizeof dynamic);
    launch(made.grid, made.block,
           [&] { entry(x.at(), y.at(), g.at(), c.at(), made.n, made.flag, static_cast<int>(made.seed)); });
    std::vector<unsigned char> all;
    for (auto *bytes : {&x.bytes, &y.bytes, &g.bytes, &c.bytes}) all.insert(all.end(), bytes->begin(), bytes->end());
    return all;
}

// Print "NAME LAUNCH same|differ|crashed|fails"; in a process of its own, as a wrong version may do anything.
template <class T>
void compare(const char *name, int launch, Entry<T> before, Entry<T> after, const Case &made) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        const rlimit limit{10, 10};  // seconds of CPU, for both
        setrlimit(RLIMIT_CPU, &limit);
        // Shared memory begins with whatever was there: nothing of ours reads it before it is written.
        auto first = results<T>(before, made);
        pid_t second = fork();
        if (second == 0) _exit(results<T>(after, made) == first ? 0 : 1);
        int status = 0;
        waitpid(second, &status, 0);
        _exit(!WIFEXITED(status) ? 3 : WEXITSTATUS(status));
    }
    int status = 0;
    waitpid(child, &status, 0);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 4;
    const char *words[] = {"same", "differ", "fails", "crashed", "fails"};
    printf("%s %d %s\n", name, launch, words[code > 4 ? 4 : code]);
}
}  // namespace shim
