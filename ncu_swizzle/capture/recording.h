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

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    write_said("note", text);
}

// ------------------------------------------------------------------------------------------------ buffers

// Copies device memory into a file; returns NULL, or why it is not there.
static const char *copied(FileName *name, DevicePointer address, size_t size) {
    if (count(&counters->memory, 0) + size > most_memory) {
        return "over the limit on memory";
    }
    void *content = malloc(size);
    if (!content) {
        return "no host memory for it";
    }
    int relaxed = CAPTURE_RELAXED;
    cuThreadExchangeStreamCaptureMode(&relaxed);
    int failed = cuMemcpyDtoH_v2(content, address, size);
    cuThreadExchangeStreamCaptureMode(&relaxed);
    const char *why = failed ? "it cannot be read" : write_contents(name, content, size);
    free(content);
    return why;
}

static void put_device_memory(DevicePointer address, size_t size, const char *unknown) {
    FileName name;
    put_contents(&name, unknown ? unknown : copied(&name, address, size));
}

// Buffers, then variables, of the thread's last recorded launch, for their contents after it.
enum { MOST_PARTS = 4096 };
static __thread struct {
    DevicePointer address;
    size_t size;
} parts[MOST_PARTS];
static __thread unsigned part_count;

static void put_part(DevicePointer address, size_t size, const char *unknown) {
    if (part_count < MOST_PARTS) {
        parts[part_count].address = address;
        parts[part_count++].size = size;
    }
    put_device_memory(address, size, unknown);
}

// Puts the allocations that the words of the parameters point into; `unknown` says why their contents are left out.
static void put_buffers(const unsigned char *parameters, size_t size, const char *unknown) {
    DevicePointer seen[MOST_BUFFERS];
    int count = 0;
    put(", \"buffers\": [");
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
        put("%s{\"address\": %llu, \"bytes\": %zu, ", count ? ", " : "", (unsigned long long)base, bytes);
        put_part(base, bytes, unknown);
        put("}");
        seen[count++] = base;
    }
    put("]");
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

static void put_variable(const char *name, void *with) {
    Variables *variables = with;
    DevicePointer address = 0;
    size_t bytes = 0;
    if (cuModuleGetGlobal_v2(&address, &bytes, variables->module, name) || !bytes) {
        return;
    }
    put("%s{\"name\": ", variables->separator);
    put_text(name);
    put(", \"bytes\": %zu, ", bytes);
    put_part(address, bytes, variables->unknown);
    put("}");
    variables->separator = ", ";
}

#endif
