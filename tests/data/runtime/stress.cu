// Launches from threads, forks and programs that it execs, ends by exit, _exit and crashes, closes descriptors that are not
// its own, and asks for what no device does: all drawn from a seed. What it launched is counted in a file that all of its
// processes map: ./app TALLY SEED
#include <cuda_runtime.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// Calls that were begun, calls that returned, those of them that were refused, answers that no device gives, and processes.
struct Tally {
    uint64_t begun, returned, refused, wrong, processes;
};
static Tally *tally;
static const char *tally_path, *program;
enum { MOST_PROCESSES = 24, WORDS = 8 };

static uint64_t add(uint64_t &counter) { return __atomic_fetch_add(&counter, 1, __ATOMIC_SEQ_CST); }

static uint64_t draw(uint64_t &state) {  // xorshift
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state >> 11;
}

__global__ void look(int *table, int value) {
    __shared__ int tile[32];
    tile[threadIdx.x] = value;
    __syncthreads();
    table[threadIdx.x % WORDS] = tile[threadIdx.x ^ 1];
}

static void expect(cudaError_t found, cudaError_t wanted) {
    if (found != wanted || cudaGetLastError() != wanted) {
        add(tally->wrong);
    }
}

// A launch whose table holds its own number, by which a reader knows whether it got this launch's contents.
static void launch(int) {
    int value = int(add(tally->begun)), words[WORDS], *table;
    for (int &word : words) {
        word = value;
    }
    cudaMalloc(&table, sizeof words);
    cudaMemcpy(table, words, sizeof words, cudaMemcpyHostToDevice);
    look<<<1, 32>>>(table, value);
    expect(cudaGetLastError() ? cudaErrorUnknown : cudaSuccess, cudaSuccess);
    add(tally->returned);
    cudaFree(table);
}

static void refused(uint64_t kind) {
    int *table;
    cudaMalloc(&table, 4096);
    char host[8192];
    expect(cudaMemcpy(table, host, sizeof host, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    expect(cudaMemset(table, 0, 4097), cudaErrorInvalidValue);
    add(tally->begun);
    switch (kind % 4) {
    case 0: look<<<0, 32>>>(table, 0); break;
    case 1: look<<<1, 2048>>>(table, 0); break;
    case 2: look<<<dim3(1, 70000), 32>>>(table, 0); break;
    default: look<<<1, 32, 1 << 30>>>(table, 0);
    }
    cudaError_t error = cudaGetLastError();
    add(tally->refused);
    add(tally->returned);
    if (error != cudaErrorInvalidValue) {
        add(tally->wrong);
    }
    cudaFree(table);
}

struct Many {
    int launches;
};

static void *launch_many(void *many) {
    for (int i = 0; i < ((Many *)many)->launches; ++i) {
        launch(i);
    }
    return nullptr;
}

// Closes everything but the standard streams, and opens its own files under the numbers that are free now.
static void steal(uint64_t many) {
    char name[64];
    for (int i = 3; i < 64; ++i) {
        close(i);
    }
    for (uint64_t i = 0; i < 1 + many % 4; ++i) {
        snprintf(name, sizeof name, "own-%d-%d.txt", getpid(), int(i));
        int file = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0644);
        if (write(file, "mine\n", 5) != 5) {
            add(tally->wrong);
        }
    }
}

static void end(uint64_t how, uint64_t seed) {
    char text[32];
    switch (how) {
    case 0: _exit(0);
    case 1:
        snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
        execl(program, program, tally_path, text, nullptr);
        _exit(3);
    case 2: abort();
    case 3: raise(SIGKILL);
    case 4: *(volatile int *)8 = 1;
    default: exit(0);
    }
}

static void act(uint64_t state, int depth);

static void fork_one(uint64_t &state, int depth, bool plainly) {
    if (add(tally->processes) >= MOST_PROCESSES) {
        return;
    }
    uint64_t seed = draw(state) | 1;
    pid_t child = plainly ? pid_t(syscall(SYS_fork)) : fork();
    if (child == 0) {
        act(seed, depth + 1);
        end(draw(seed) % 8, draw(seed) | 1);
    }
    if (child > 0) {
        waitpid(child, nullptr, 0);
    }
}

// Threads launch, and meanwhile this one forks, closes descriptors, launches, or ends the process.
static void thread(uint64_t &state, int depth) {
    pthread_t threads[6];
    Many many = {int(draw(state) % 20)};
    int count = 2 + int(draw(state) % 5);
    for (int i = 0; i < count; ++i) {
        pthread_create(&threads[i], nullptr, launch_many, &many);
    }
    switch (draw(state) % 8) {
    case 0: fork_one(state, depth, false); break;
    case 1: steal(draw(state)); break;
    case 2: launch(0); break;
    case 3:
        if (depth) {
            end(draw(state) % 8, draw(state) | 1);
        }
    }
    for (int i = 0; i < count; ++i) {
        pthread_join(threads[i], nullptr);
    }
}

// A process that ignores everything and stays, in its own session.
static void leave_daemon() {
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            launch(0);
            signal(SIGTERM, SIG_IGN);
            signal(SIGHUP, SIG_IGN);
            sleep(600);
        }
        _exit(0);
    }
    wait(nullptr);
}

static void act(uint64_t state, int depth) {
    for (uint64_t left = 1 + draw(state) % 8; left; --left) {
        switch (draw(state) % 10) {
        case 0: fork_one(state, depth, false); break;
        case 1: fork_one(state, depth, true); break;
        case 2:
        case 3: thread(state, depth); break;
        case 4: steal(draw(state)); break;
        case 5: refused(draw(state)); break;
        default: launch(0);
        }
    }
    if (draw(state) % 64 == 0) {
        leave_daemon();
    }
}

int main(int argc, char **argv) {
    if (argc != 3) {
        return 2;
    }
    tally_path = argv[1];
    program = argv[0];
    int file = open(tally_path, O_RDWR);
    tally = (Tally *)mmap(nullptr, sizeof(Tally), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    uint64_t state = strtoull(argv[2], nullptr, 10) * 0x9e3779b97f4a7c15 | 1;
    for (int i = 0; i < 8; ++i) {
        draw(state);
    }
    act(state, 0);
    bool again = add(tally->processes) < MOST_PROCESSES;
    end(again ? draw(state) % 2 ? 5 : draw(state) % 2 : 5, draw(state) | 1);
}
