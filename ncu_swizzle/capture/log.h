// What a capture writes: one JSON object a line in PID.jsonl, cubins in PID-cN and contents of memory in PID-mN.
#ifndef NCU_SWIZZLE_LOG_H
#define NCU_SWIZZLE_LOG_H

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST_NAME = 4096, MOST_PARAMETER_BYTES = 1 << 16 };

static FILE *record_file;
static const char *record_folder;
static long long memory_left;  // bytes of contents that may still be written
static int with_memory;
static unsigned images;
static pthread_mutex_t mutex;  // recursive: what a callback calls may load a module

static void write_text(const char *text) {
    fputc('"', record_file);
    for (const unsigned char *at = (const unsigned char *)text; *at; ++at) {
        if (*at < 0x20 || *at == '"' || *at == '\\' || *at >= 0x7f) {
            fprintf(record_file, "\\u%04x", *at);
        } else {
            fputc(*at, record_file);
        }
    }
    fputc('"', record_file);
}

static void note(const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fputs("{\"is\": \"note\", \"text\": ", record_file);
    write_text(text);
    fputs("}\n", record_file);
    fflush(record_file);
}

// Writes a file of the recording; returns whether all of it is there.
static int write_file(char kind, unsigned number, const void *content, size_t size) {
    char path[LONGEST_NAME];
    snprintf(path, sizeof path, "%s/%d-%c%u", record_folder, (int)getpid(), kind, number);
    FILE *file = fopen(path, "wb");
    if (!file) {
        return 0;
    }
    int whole = fwrite(content, 1, size, file) == size;
    return fclose(file) == 0 && whole;
}

static void write_three(const char *name, const unsigned int *sizes) {
    fprintf(record_file, ", \"%s\": [%u, %u, %u]", name, sizes[0], sizes[1], sizes[2]);
}

static void write_hex(const unsigned char *value, size_t size) {
    fputc('"', record_file);
    for (size_t at = 0; at < size; ++at) {
        fprintf(record_file, "%02x", value[at]);
    }
    fputc('"', record_file);
}

static const char *setting(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value ? value : otherwise;
}

static void open_mutex(void) {
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&mutex, &recursive);
}

// Opens the recording of this process in the folder that the environment names; returns whether there is one.
static int open_record_file(void) {
    char path[LONGEST_NAME];
    record_folder = setting("NCU_SWIZZLE_CAPTURE", "");
    if (!*record_folder) {
        return 0;
    }
    record_folder = strdup(record_folder);
    memory_left = atoll(setting("NCU_SWIZZLE_CAPTURE_MEMORY", "0"));
    with_memory = memory_left > 0;
    snprintf(path, sizeof path, "%s/%d.jsonl", record_folder, (int)getpid());
    record_file = fopen(path, "w");
    return record_file != NULL;
}

#endif
