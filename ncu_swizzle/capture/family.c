// Runs a program and ends what it leaves running, also what has left its session: orphans become children of this process.
// Ends as the program did.
//
//   cc -O2 -o family family.c
//   family PROGRAM ARGUMENTS…
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// In milliseconds: how long what is left may take to end by itself; then after SIGTERM, the program itself, too, if this
// process is sent one; then after the first SIGKILL, which cannot end what another user runs.
enum { LINGER = 500, GRACE = 1000, GRACE_OF_PROGRAM = 4000, LAST = 2000, PAUSE = 20 };

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000LL + time.tv_nsec / 1000000;
}

static void signal_children(int number) {
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes && (entry = readdir(processes));) {
        char path[64], line[512] = "";
        int process = atoi(entry->d_name), parent = 0;
        snprintf(path, sizeof path, "/proc/%d/stat", process);
        FILE *status = process > 0 ? fopen(path, "r") : NULL;
        const char *behind = status && fgets(line, sizeof line, status) ? strrchr(line, ')') : NULL;  // the program's name
        if (behind && sscanf(behind, ") %*c %d", &parent) == 1 && parent == getpid()) {
            kill(process, number);
        }
        if (status) {
            fclose(status);
        }
    }
    if (processes) {
        closedir(processes);
    }
}

static void end_as(int status) {
    if (WIFSIGNALED(status)) {
        struct rlimit none = {0, 0};
        sigset_t number;
        sigemptyset(&number);
        sigaddset(&number, WTERMSIG(status));
        setrlimit(RLIMIT_CORE, &none);
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
        sigprocmask(SIG_UNBLOCK, &number, NULL);
    }
    _exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}

int main(int argc, char **argv) {
    static const int AWAITED[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP};
    sigset_t awaited, before;
    sigemptyset(&awaited);
    for (size_t i = 0; i < sizeof AWAITED / sizeof *AWAITED; ++i) {
        sigaddset(&awaited, AWAITED[i]);
    }
    sigprocmask(SIG_BLOCK, &awaited, &before);
    signal(SIGCHLD, SIG_DFL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t program = argc > 1 ? fork() : -1;
    if (program == 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        execvp(argv[1], argv + 1);
        fprintf(stderr, "cannot run %s: %s\n", argv[1], strerror(errno));
        _exit(127);
    }
    int status = 126 << 8, ended = program < 0;
    long long since = 0;  // the program has ended, or is to end
    for (;;) {
        int one;
        pid_t reaped = waitpid(-1, &one, WNOHANG);
        if (reaped > 0) {
            ended |= reaped == program;
            status = reaped == program ? one : status;
            continue;
        }
        if (reaped < 0) {
            break;  // none is left
        }
        if (ended && !since) {
            since = now();
        }
        long long passed = since ? now() - since : 0, grace = ended ? GRACE : GRACE_OF_PROGRAM;
        if (passed > LINGER + grace + LAST) {
            break;
        }
        if (passed > LINGER) {
            signal_children(passed > LINGER + grace ? SIGKILL : SIGTERM);
        }
        struct timespec pause = {0, PAUSE * 1000000L};
        int number = since ? sigtimedwait(&awaited, NULL, &pause) : sigwaitinfo(&awaited, NULL);
        if (number > 0 && number != SIGCHLD) {
            since = now() - LINGER - 1;  // at once
        }
    }
    end_as(status);
}
