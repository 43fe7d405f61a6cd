// Device memory and variables, copied before a launch.
#ifndef NCU_SWIZZLE_RECORDING_H
#define NCU_SWIZZLE_RECORDING_H

#include "driver.h"
#include "log.h"

#define DECLARE(name, types) static int(*name) types;
DRIVER_FUNCTIONS(DECLARE)
CUPTI_FUNCTIONS(DECLARE)

enum { MOST_BUFFERS = 256 };

static unsigned cubins;

// ------------------------------------------------------------------------------------------------ buffers

// Copies device memory into a file; returns the file's number, or -1 with the reason.
static long copied(DevicePointer address, size_t size, const char **why) {
    if ((long long)size > memory_left) {
        *why = "over the limit on memory";
        return -1;
    }
    void *content = malloc(size);
    if (!content) {
        *why = "no host memory for it";
        return -1;
    }
    int relaxed = CAPTURE_RELAXED;
    cuThreadExchangeStreamCaptureMode(&relaxed);
    int failed = cuMemcpyDtoH_v2(content, address, size);
    cuThreadExchangeStreamCaptureMode(&relaxed);
    long number = -1;
    *why = "it cannot be read";
    if (!failed && write_file('m', images, content, size)) {
        number = images++;
        memory_left -= (long long)size;
    } else if (!failed) {
        *why = "it cannot be written to disk";
    }
    free(content);
    return number;
}

static void write_content(DevicePointer address, size_t size, const char *unknown) {
    const char *why = unknown;
    long number = unknown ? -1 : copied(address, size, &why);
    if (number >= 0) {
        fprintf(record_file, "\"content\": %ld", number);
    } else {
        fputs("\"content\": null, \"why\": ", record_file);
        write_text(why);
    }
}

// Writes the allocations that the words of the parameters point into; `unknown` says why their contents are left out.
static void write_buffers(const unsigned char *parameters, size_t size, const char *unknown) {
    DevicePointer seen[MOST_BUFFERS];
    int count = 0;
    fputs(", \"buffers\": [", record_file);
    for (size_t at = 0; at + 8 <= size && count < MOST_BUFFERS; at += 8) {
        DevicePointer value, base = 0;
        size_t bytes = 0;
        memcpy(&value, parameters + at, 8);
        if (value < 4096 || cuMemGetAddressRange_v2(&base, &bytes, value) || !bytes) {
            continue;
        }
        int known = 0;
        for (int i = 0; i < count; ++i) {
            known |= seen[i] == base;
        }
        if (known) {
            continue;
        }
        fprintf(record_file, "%s{\"address\": %llu, \"bytes\": %zu, ", count ? ", " : "", (unsigned long long)base, bytes);
        write_content(base, bytes, unknown);
        fputc('}', record_file);
        seen[count++] = base;
    }
    fputc(']', record_file);
}

// ------------------------------------------------------------------------------------------------ variables

static uint64_t number_at(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    memcpy(&value, at, (size_t)bytes);
    return value;
}

// Calls `use` with the name of each variable in a cubin: symbols of type object in a 64-bit ELF file.
static void each_variable(const unsigned char *cubin, size_t size, void (*use)(const char *, void *), void *with) {
    if (size < 64 || memcmp(cubin, "\177ELF\2", 5)) {
        return;
    }
    uint64_t table = number_at(cubin + 40, 8), count = number_at(cubin + 60, 2);
    if (number_at(cubin + 58, 2) != 64 || table > size || count * 64 > size - table) {
        return;
    }
    for (uint64_t i = 0; i < count; ++i) {
        const unsigned char *section = cubin + table + 64 * i;
        uint64_t start = number_at(section + 24, 8), bytes = number_at(section + 32, 8), link = number_at(section + 40, 4);
        if (number_at(section + 4, 4) != 2 || link >= count || start > size || bytes > size - start) {
            continue;  // not a symbol table
        }
        const unsigned char *names = cubin + table + 64 * link;
        uint64_t first = number_at(names + 24, 8), length = number_at(names + 32, 8);
        if (first > size || length > size - first || !length || cubin[first + length - 1]) {
            continue;
        }
        for (uint64_t at = start; at + 24 <= start + bytes; at += 24) {
            uint64_t name = number_at(cubin + at, 4);
            if ((cubin[at + 4] & 15) == 1 && number_at(cubin + at + 16, 8) && name < length) {
                use((const char *)cubin + first + name, with);
            }
        }
    }
}

typedef struct {
    Handle module;
    const char *separator;
    const char *unknown;
} Variables;

static void write_variable(const char *name, void *with) {
    Variables *variables = with;
    DevicePointer address = 0;
    size_t bytes = 0;
    if (cuModuleGetGlobal_v2(&address, &bytes, variables->module, name) || !bytes) {
        return;
    }
    fprintf(record_file, "%s{\"name\": ", variables->separator);
    write_text(name);
    fprintf(record_file, ", \"bytes\": %zu, ", bytes);
    write_content(address, bytes, variables->unknown);
    fputc('}', record_file);
    variables->separator = ", ";
}

#endif
