// Files without a descriptor in the program. A program may close descriptors that it did not open and reuse their numbers
// for its files, at any moment and in any thread: comparing device and inode before each write would leave a gap. So files
// are opened, written and closed by a process that shares the program's memory but has its own descriptors, like
// posix_spawn's child before it execs. What it maps stays mapped: the memory is the same.
#ifndef NCU_SWIZZLE_APART_H
#define NCU_SWIZZLE_APART_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// Runs `work` in such a process and waits for it; the caller holds the lock, so there is one at a time.
static void run_apart(int (*work)(void *), void *with) {
    static char stack[1 << 16] __attribute__((aligned(16)));
    sigset_t all, before;
    sigfillset(&all);  // a handler of the program's must not run there
    pthread_sigmask(SIG_SETMASK, &all, &before);
    // Without CLONE_FILES, and without a signal at its end: the program's own wait() does not see it.
    int process = clone(work, stack + sizeof stack, CLONE_VM | CLONE_VFORK, with);
    while (process > 0 && waitpid(process, NULL, __WCLONE) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

typedef struct {
    const char *path;
    int flags;  // in addition to O_WRONLY
    const void *content;
    size_t size;
    int error, whole;  // whole: it was opened, all of it was written, and it was closed
} Output;

// Opens a file, even if the program has used up its descriptors: here, one of them can be closed.
static int open_apart(const char *path, int flags) {
    int file = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0 && errno == EMFILE) {
        close(0);
        file = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    }
    return file;
}

static int write_out(void *with) {
    Output *out = with;
    const char *at = out->content;
    size_t left = out->size;
    int file = open_apart(out->path, out->flags | O_WRONLY);
    out->error = file < 0 ? errno : 0;
    while (file >= 0 && left) {
        ssize_t written = write(file, at, left);
        if (written <= 0) {
            break;
        }
        at += written;
        left -= (size_t)written;
    }
    out->whole = file >= 0 && close(file) == 0 && !left;
    return 0;
}

typedef struct {
    const char *path;
    int writable;
    void *at;  // NULL if it cannot be mapped
    size_t size;
} Mapped;

static int map_in(void *with) {
    Mapped *mapped = with;
    struct stat status;
    int file = open_apart(mapped->path, mapped->writable ? O_RDWR : O_RDONLY);
    if (file >= 0 && !fstat(file, &status) && status.st_size > 0) {
        int access = PROT_READ | (mapped->writable ? PROT_WRITE : 0);
        void *at = mmap(NULL, (size_t)status.st_size, access, MAP_SHARED, file, 0);
        if (at != MAP_FAILED) {
            mapped->at = at;
            mapped->size = (size_t)status.st_size;
        }
    }
    close(file);
    return 0;
}

// Maps a file, shared with everyone who maps it; returns whether it is mapped.
static int map_file(Mapped *mapped) {
    mapped->at = NULL;
    run_apart(map_in, mapped);
    return mapped->at != NULL;
}

#endif
