// What a capture writes: one JSON object a line in PID-N.jsonl, cubins in PID-N-cM and contents of memory in PID-N-mM. N
// tells apart the uses of one process ID: a program that execs itself, and an ID that is reused. Every event names its
// files. Launches are counted in memory that all processes of the capture share, so that neither _exit nor exec nor a kill
// loses the count.
#ifndef NCU_SWIZZLE_LOG_H
#define NCU_SWIZZLE_LOG_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apart.h"

enum { LONGEST_NAME = 4096, MOST_PARAMETER_BYTES = 1 << 16, LONGEST_RECORD_NAME = 64 };

// Launches that were asked for; of these, what -k leaves out, what CUDA refuses, and what is to be recorded; and bytes of
// contents. In the file `counters`, as running.py reads it.
typedef struct {
    uint64_t seen, unwanted, refused, claimed, memory;
} Counters;

typedef struct Event Event;

static Counters *counters;
static Event *event;  // that is being put together
static const char *record_folder;
static char record_name[LONGEST_RECORD_NAME];  // PID-N; empty as long as this process has no record
static int torn;                               // the record's last line was not written to its end
static uint64_t most_memory;                   // bytes of contents, in all
static int with_memory;
static unsigned images;

static uint64_t count(uint64_t *counter, uint64_t more) { return __atomic_fetch_add(counter, more, __ATOMIC_RELAXED); }

// ------------------------------------------------------------------------------------------------ the lock

// Recursive: what a callback calls may load a module, and functions of the API call each other.
#define UNLOCKED PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
static pthread_mutex_t mutex = UNLOCKED;
static pid_t locked_for;  // the process that mutex, record and counters are of; negative while that changes

// In a fork: the lock, which a thread of the parent may have held, is free; the record is the parent's.
static void forget_parent(void) {
    mutex = (pthread_mutex_t)UNLOCKED;
    event = NULL;
    record_name[0] = 0;
    torn = 0;
    images = 0;
}

// Takes the lock, in a fork a new one, and keeps the thread from being cancelled with it; returns how that was before.
static int take_lock(void) {
    pid_t before = __atomic_load_n(&locked_for, __ATOMIC_ACQUIRE), here = getpid();
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    while (before != here) {  // after fork, or after a system call that runs no handlers
        if (before != -here && __atomic_compare_exchange_n(&locked_for, &before, -here, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            forget_parent();
            __atomic_store_n(&locked_for, here, __ATOMIC_RELEASE);
        } else {
            sched_yield();
        }
        before = __atomic_load_n(&locked_for, __ATOMIC_ACQUIRE);
    }
    pthread_mutex_lock(&mutex);
    return cancel;
}

static void release_lock(const int *cancel) {
    pthread_mutex_unlock(&mutex);
    pthread_setcancelstate(*cancel, NULL);
}

// Holds the lock until the block ends.
#define HOLD_LOCK __attribute__((cleanup(release_lock), unused)) const int held = take_lock()

// ------------------------------------------------------------------------------------------------ files

// Creates the record if there is none, under a name that is free; returns whether there is one.
static int has_record(void) {
    char path[LONGEST_NAME];
    for (unsigned number = 1; !*record_name && number; ++number) {
        snprintf(path, sizeof path, "%s/%d-%u.jsonl", record_folder, (int)getpid(), number);
        Output out = {.path = path, .flags = O_CREAT | O_EXCL};
        run_apart(write_out, &out);
        if (out.whole) {
            snprintf(record_name, sizeof record_name, "%d-%u", (int)getpid(), number);
        } else if (out.error != EEXIST) {
            return 0;
        }
    }
    return *record_name != 0;
}

typedef struct {
    char text[LONGEST_RECORD_NAME + 16];
} FileName;

// Writes a file of the recording; returns whether all of it is there.
static int write_file(FileName *name, char kind, unsigned number, const void *content, size_t size) {
    char path[LONGEST_NAME];
    if (!has_record()) {
        return 0;
    }
    snprintf(name->text, sizeof name->text, "%s-%c%u", record_name, kind, number);
    snprintf(path, sizeof path, "%s/%s", record_folder, name->text);
    Output out = {path, O_CREAT | O_EXCL, content, size, 0, 0};
    run_apart(write_out, &out);
    return out.whole;
}

// Writes contents of memory; returns NULL, or why they are not there.
static const char *write_contents(FileName *name, const void *content, size_t size) {
    if (count(&counters->memory, size) + size > most_memory) {
        count(&counters->memory, -(uint64_t)size);
        return "over the limit on memory";
    }
    if (!write_file(name, 'm', images++, content, size)) {
        count(&counters->memory, -(uint64_t)size);
        return "it cannot be written to disk";
    }
    return NULL;
}

// ------------------------------------------------------------------------------------------------ events

// An event is put together in memory and written at once. Another one may come while it is: then that is written first.
struct Event {
    char *text;
    size_t size, room;
    int failed;
    Event *outer;
};

static char *room_for(size_t more) {
    size_t room = event->room ? event->room : 1024;
    while (room - event->size < more) {
        room *= 2;
    }
    char *text = room == event->room ? event->text : realloc(event->text, room);
    if (!text) {
        event->failed = 1;
        return NULL;
    }
    event->text = text;
    event->room = room;
    return text + event->size;
}

__attribute__((format(printf, 1, 2))) static void put(const char *format, ...) {
    char start[256], *at;
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int size = vsnprintf(start, sizeof start, format, arguments);
    if (size >= 0 && (at = room_for((size_t)size + 1))) {
        vsnprintf(at, (size_t)size + 1, format, again);
        event->size += (size_t)size;
    }
    va_end(again);
    va_end(arguments);
}

static void begin_event(Event *new, const char *is) {
    *new = (Event){.outer = event};
    event = new;
    put("%s{\"is\": \"%s\"", torn ? "\n" : "", is);
}

// Writes the event; returns whether all of it is in the record.
static int end_event(void) {
    char path[LONGEST_NAME];
    put("}\n");
    Event *ended = event;
    event = ended->outer;
    Output out = {path, O_APPEND, ended->text, ended->size, 0, 0};
    if (!ended->failed && has_record()) {
        snprintf(path, sizeof path, "%s/%s.jsonl", record_folder, record_name);
        run_apart(write_out, &out);
        torn = !out.whole;
    }
    free(ended->text);
    return out.whole;
}

static void put_text(const char *text) {
    put("\"");
    for (const unsigned char *at = (const unsigned char *)text; *at; ++at) {
        put(*at < 0x20 || *at == '"' || *at == '\\' || *at >= 0x7f ? "\\u%04x" : "%c", *at);
    }
    put("\"");
}

static void put_three(const char *name, const unsigned int *sizes) {
    put(", \"%s\": [%u, %u, %u]", name, sizes[0], sizes[1], sizes[2]);
}

static void put_hex(const unsigned char *value, size_t size) {
    char *at = room_for(2 * size + 3);
    if (!at) {
        return;
    }
    event->size += 2 * size + 2;
    *at++ = '"';
    for (; size; --size, ++value) {
        *at++ = "0123456789abcdef"[*value >> 4];
        *at++ = "0123456789abcdef"[*value & 15];
    }
    *at = '"';
}

// Puts the contents of a part of memory, or why they are not there.
static void put_contents(const FileName *name, const char *why) {
    put("\"content\": %s%s%s", why ? "" : "\"", why ? "null" : name->text, why ? "" : "\"");
    if (why) {
        put(", \"why\": ");
        put_text(why);
    }
}

static void write_said(const char *is, const char *text) {
    Event said;
    begin_event(&said, is);
    put(", \"text\": ");
    put_text(text);
    end_event();
}

// ------------------------------------------------------------------------------------------------ start

static const char *setting(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value ? value : otherwise;
}

// Finds the folder of the recording, which the environment names, and its counters; returns whether they are there.
static int find_recording(void) {
    char path[LONGEST_NAME];
    record_folder = setting("NCU_SWIZZLE_CAPTURE", "");
    if (!*record_folder || !(record_folder = strdup(record_folder))) {
        return 0;
    }
    most_memory = strtoull(setting("NCU_SWIZZLE_CAPTURE_MEMORY", "0"), NULL, 10);
    with_memory = most_memory > 0;
    snprintf(path, sizeof path, "%s/counters", record_folder);
    Mapped mapped = {.path = path, .writable = 1};
    if (!map_file(&mapped) || mapped.size < sizeof *counters) {
        return 0;
    }
    counters = mapped.at;
    return 1;
}

#endif
