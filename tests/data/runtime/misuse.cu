// What else programs do, next to launching, one thing a run: ./app WHAT
#include <cuda_runtime.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

__global__ void look(const int *table, int *out) {
    __shared__ int tile[1024];
    tile[table[threadIdx.x]] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}

static void launch(int stride) {
    int words[32], *table, *out;
    for (int i = 0; i < 32; ++i) {
        words[i] = i * stride;
    }
    cudaMalloc(&table, sizeof words);
    cudaMalloc(&out, sizeof words);
    cudaMemcpy(table, words, sizeof words, cudaMemcpyHostToDevice);
    look<<<1, 32>>>(table, out);
}

static void *launch_200(void *) {
    for (int i = 0; i < 200; ++i) {
        launch(1);
    }
    return nullptr;
}

enum { LARGE = 64 << 20 };
static void *large, *copy;

static void *copy_large(void *) { return cudaMemcpy(copy, large, LARGE, cudaMemcpyHostToDevice), nullptr; }

static void *launch_first(void *table) {
    usleep(2000);
    look<<<1, 1>>>((int *)table, (int *)table);
    return nullptr;
}

// Forks while one thread copies and another launches for the first time; then the child launches.
static void fork_at_the_first_launch() {
    pthread_t copying, launching;
    void *table;
    large = calloc(LARGE, 1);
    cudaMalloc(&copy, LARGE);
    cudaMalloc(&table, 128);
    pthread_create(&copying, nullptr, copy_large, nullptr);
    pthread_create(&launching, nullptr, launch_first, table);
    usleep(1000);
    pid_t child = fork();
    if (!child) {
        alarm(30);
        launch(1);
        _exit(0);
    }
    waitpid(child, nullptr, 0);
    pthread_join(copying, nullptr);
    pthread_join(launching, nullptr);
}

// The child's table conflicts 32-way.
static int forked(pid_t child) {
    launch(child ? 1 : 32);
    if (child) {
        waitpid(child, nullptr, 0);
    }
    return 0;
}

static int does(const char *what, char **argv) {
    if (!strcmp(what, "fork")) {
        return launch(1), forked(fork());
    }
    if (!strcmp(what, "plain-fork")) {
        return launch(1), forked(pid_t(syscall(SYS_fork)));
    }
    if (!strcmp(what, "threads")) {
        pthread_t threads[8];
        for (pthread_t &thread : threads) {
            pthread_create(&thread, nullptr, launch_200, nullptr);
        }
        for (pthread_t thread : threads) {
            pthread_join(thread, nullptr);
        }
    } else if (!strcmp(what, "first-launch")) {
        for (int i = 0; i < 5; ++i) {
            if (!fork()) {
                fork_at_the_first_launch();
                exit(0);
            }
            wait(nullptr);
        }
    } else if (!strcmp(what, "exec")) {
        launch(1);
        launch(1);
        execl(argv[0], argv[0], "launch", nullptr);
    } else if (!strcmp(what, "quit")) {
        for (int i = 0; i < 7; ++i) {
            launch(1);
        }
        _exit(0);
    } else if (!strcmp(what, "crash")) {
        if (!fork()) {
            launch(32);
            raise(SIGKILL);
        }
        wait(nullptr);
        launch(1);
    } else if (!strcmp(what, "descriptors")) {
        launch(1);
        for (int i = 3; i < 64; ++i) {
            close(i);
        }
        for (int i = 3; i < 64; ++i) {
            open("own.txt", O_CREAT | O_RDWR, 0644);
        }
        launch(32);
    } else if (!strcmp(what, "descriptors-used-up")) {
        rlimit few = {64, 64};
        launch(1);
        setrlimit(RLIMIT_NOFILE, &few);
        while (open("/dev/null", O_RDONLY) >= 0) {
        }
        launch(1);
    } else if (!strcmp(what, "full-disk")) {
        rlimit small = {700, 700};
        launch(1);
        setrlimit(RLIMIT_FSIZE, &small);
        launch(1);
        launch(1);
    } else if (!strcmp(what, "daemon") || !strcmp(what, "hang")) {
        launch(1);
        if (!fork()) {
            setsid();
            if (!fork()) {
                signal(SIGTERM, SIG_IGN);
                signal(SIGHUP, SIG_IGN);
                sleep(600);
            }
            _exit(0);
        }
        sleep(what[0] == 'h' ? 600 : 0);
    } else {
        launch(1);
    }
    return 0;
}

int main(int argc, char **argv) { return argc > 1 ? does(argv[1], argv) : 2; }
