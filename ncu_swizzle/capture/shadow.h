// Device memory without a device: host memory at addresses of its own, and which bytes of it are known. What a kernel
// could have written is unknown afterwards, for no kernel runs: every allocation that it reaches through its parameters,
// through pointers in known memory, or through memory that an earlier kernel reached together with it.
#ifndef NCU_SWIZZLE_SHADOW_H
#define NCU_SWIZZLE_SHADOW_H

#include "log.h"

#define ARENA ((uintptr_t)0x7c0000000000)
#define ARENA_END (ARENA + ((uintptr_t)1 << 41))  // below what the system maps by itself
enum { APART = 2 << 20, ALIGNMENT = 512 };

typedef struct {
    size_t from, to;
} Span;

typedef struct Allocation {
    uintptr_t start;
    size_t size;
    Span *known;
    int spans, room;
    int shared;  // with the host, which may write it at any time
    int group;  // of allocations that one kernel reached; 0 before
    int reached;
    struct Allocation *next;
} Allocation;

static Allocation *allocations;
static uintptr_t next_address = ARENA;
static size_t allocated;  // of the device alone
static int executing;      // launches are executed, and leave what they compute
static char unknown_why[256];  // the last launch that left something unknown

static Allocation *allocation_at(const void *pointer) {
    uintptr_t address = (uintptr_t)pointer;
    for (Allocation *at = allocations; at; at = at->next) {
        if (address >= at->start && address < at->start + at->size) {
            return at;
        }
    }
    return NULL;
}

// Returns whether bytes can be copied: within one allocation if they are the device's. The host's are taken on trust.
static int is_there(const void *pointer, size_t size) {
    uintptr_t address = (uintptr_t)pointer;
    if (address < ARENA || address >= ARENA_END) {
        return pointer != NULL || !size;
    }
    const Allocation *at = allocation_at(pointer);
    return at && size <= at->size - (address - at->start);
}

// Reserves device memory, up to what the device has; the system finds pages for what is used of it.
static void *allocate(size_t size, int shared) {
    if (size > DEVICE_MEMORY || (!shared && allocated + size > DEVICE_MEMORY) || ARENA_END - next_address < size + APART) {
        return NULL;
    }
    size_t whole = (size + APART) / 4096 * 4096 + 4096;
    Allocation *made = calloc(1, sizeof *made);
    void *place = made ? mmap((void *)next_address, whole, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0)
                       : MAP_FAILED;
    if (place == MAP_FAILED || (uintptr_t)place != next_address) {
        free(made);
        return NULL;
    }
    *made = (Allocation){.start = next_address, .size = size, .shared = shared, .next = allocations};
    allocations = made;
    next_address += (whole + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    allocated += shared ? 0 : size;
    return place;
}

static int release(void *pointer) {
    for (Allocation **at = &allocations; *at; at = &(*at)->next) {
        if ((*at)->start == (uintptr_t)pointer) {
            Allocation *gone = *at;
            *at = gone->next;
            allocated -= gone->shared ? 0 : gone->size;
            munmap(pointer, gone->size);
            free(gone->known);
            free(gone);
            return 1;
        }
    }
    return 0;
}

// ------------------------------------------------------------------------------------------------ what is known

static void forget(Allocation *a, size_t from, size_t to) {
    Span *kept = calloc((size_t)a->spans + 2, sizeof *kept);
    int count = 0;
    for (int i = 0; kept && i < a->spans; ++i) {
        if (a->known[i].from < from) {
            kept[count++] = (Span){a->known[i].from, a->known[i].to < from ? a->known[i].to : from};
        }
        if (a->known[i].to > to) {
            kept[count++] = (Span){a->known[i].from > to ? a->known[i].from : to, a->known[i].to};
        }
    }
    free(a->known);
    a->known = kept;
    a->spans = count;
    a->room = count + 2;
}

static void learn(Allocation *a, size_t from, size_t to) {
    if (from >= to) {
        return;
    }
    for (int i = 0; i < a->spans; ++i) {  // together with what it touches
        if (a->known[i].from <= to && a->known[i].to >= from) {
            from = a->known[i].from < from ? a->known[i].from : from;
            to = a->known[i].to > to ? a->known[i].to : to;
        }
    }
    forget(a, from, to);
    int at = a->spans;
    while (a->known && at > 0 && a->known[at - 1].from > from) {
        a->known[at] = a->known[at - 1];
        --at;
    }
    if (a->known) {
        a->known[at] = (Span){from, to};
        ++a->spans;
    }
}

// Copies as cudaMemcpy does, and what is known of the source with it; returns whether both are there.
static int copy(void *to, const void *from, size_t size) {
    Allocation *target = allocation_at(to), *source = allocation_at(from);
    if (!is_there(to, size) || !is_there(from, size)) {
        return 0;
    }
    memmove(to, from, size);
    if (!target) {
        return 1;
    }
    size_t at = (uintptr_t)to - target->start;
    if (!source || source->shared) {
        if (source && source->group) {
            forget(target, at, at + size);
        } else {
            learn(target, at, at + size);
        }
        return 1;
    }
    size_t first = (uintptr_t)from - source->start;
    Span *spans = calloc((size_t)source->spans + 1, sizeof *spans);
    int count = source->spans;
    if (spans && count) {
        memcpy(spans, source->known, (size_t)count * sizeof *spans);
    }
    forget(target, at, at + size);
    for (int i = 0; spans && i < count; ++i) {
        size_t begin = spans[i].from > first ? spans[i].from : first;
        size_t end = spans[i].to < first + size ? spans[i].to : first + size;
        if (begin < end) {
            learn(target, at + begin - first, at + end - first);
        }
    }
    free(spans);
    return 1;
}

static int fill(void *to, int value, size_t size) {
    Allocation *target = allocation_at(to);
    if (!is_there(to, size)) {
        return 0;
    }
    memset(to, value, size);
    if (target) {
        learn(target, (uintptr_t)to - target->start, (uintptr_t)to - target->start + size);
    }
    return 1;
}

// ------------------------------------------------------------------------------------------------ what a kernel reaches

static int reach_words(const unsigned char *content, size_t size) {
    int more = 0;
    for (size_t at = 0; at + 8 <= size; at += 8) {
        void *value;
        memcpy(&value, content + at, 8);
        Allocation *pointed = (uintptr_t)value >= ARENA && (uintptr_t)value < next_address ? allocation_at(value) : NULL;
        if (pointed && !pointed->reached) {
            pointed->reached = more = 1;
        }
    }
    return more;
}

static int reach_group(int group) {
    int more = 0;
    for (Allocation *a = allocations; a; a = a->next) {
        if (group && a->group == group && !a->reached) {
            a->reached = more = 1;
        }
    }
    return more;
}

// Marks everything that can be reached from what is marked so far.
static void reach_all(void) {
    int more = 1;
    while (more) {
        more = 0;
        for (Allocation *a = allocations; a; a = a->next) {
            if (!a->reached) {
                continue;
            }
            more |= reach_group(a->group);
            if (a->shared) {
                more |= reach_words((const unsigned char *)a->start, a->size);
            }
            for (int i = 0; i < a->spans; ++i) {
                size_t from = (a->known[i].from + 7) & ~(size_t)7;
                more |= from < a->known[i].to && reach_words((const unsigned char *)a->start + from, a->known[i].to - from);
            }
        }
    }
}

static void put_piece(const Allocation *a, size_t from, size_t to, int known, int *first) {
    FileName name;
    const char *why = !a->group     ? "nothing was copied to it"
                      : *unknown_why ? unknown_why
                                     : "a kernel that did not run may have written it";
    put("%s{\"address\": %llu, \"bytes\": %zu, ", *first ? "" : ", ", (unsigned long long)(a->start + from), to - from);
    put_contents(&name, known ? write_contents(&name, (const void *)(a->start + from), to - from) : why);
    put("}");
    *first = 0;
}

// Puts what a kernel reaches, in pieces that are known or not.
static void put_reached(void) {
    int first = 1;
    put(", \"buffers\": [");
    for (Allocation *a = allocations; a; a = a->next) {
        size_t at = 0;
        if (!a->reached) {
            continue;
        }
        if (a->shared && !a->group) {
            put_piece(a, 0, a->size, 1, &first);
            continue;
        }
        for (int i = 0; i < a->spans; ++i) {
            if (at < a->known[i].from) {
                put_piece(a, at, a->known[i].from, 0, &first);
            }
            put_piece(a, a->known[i].from, a->known[i].to, 1, &first);
            at = a->known[i].to;
        }
        if (at < a->size) {
            put_piece(a, at, a->size, 0, &first);
        }
    }
    put("]");
}

// Forgets what a kernel reached, once its launch is written.
static void lose_reached(int group) {
    for (Allocation *a = allocations; a; a = a->next) {
        if (a->reached) {
            forget(a, 0, a->size);
            a->group = group;
            a->reached = 0;
        }
    }
}

#endif
