// One launch, as the driver is asked for it.
#ifndef NCU_SWIZZLE_LAUNCHING_H
#define NCU_SWIZZLE_LAUNCHING_H

#include "filter.h"
#include "modules.h"

typedef struct {
    Handle function;  // a CUfunction, or a CUkernel, which the driver accepts in its place
    const char *name;  // mangled; NULL if it is to be asked for
    Shape shape;
    unsigned int cluster[3];  // zeros without
    void **parameters, **extra;
    const char *unknown;  // why contents of memory are not to be copied; NULL if they are
    int graph;
} Launch;

// Turns the handle of a launch into a CUfunction with its module; returns 0 on success.
static int resolve(Handle handle, Handle *function, Handle *module) {
    *function = handle;
    if (!cuFuncGetModule(module, handle)) {
        return 0;
    }
    return cuKernelGetFunction(function, handle) || cuFuncGetModule(module, *function);
}

// Returns the bytes that a caller packed itself, and their number; NULL if it gave them one by one.
static const unsigned char *packed_parameters(void **extra, size_t *size) {
    const unsigned char *buffer = NULL;
    for (void **at = extra; at && (uintptr_t)at[0] != PARAMETER_END; at += 2) {
        if ((uintptr_t)at[0] == PARAMETER_BUFFER) {
            buffer = at[1];
        } else if ((uintptr_t)at[0] == PARAMETER_SIZE) {
            *size = *(size_t *)at[1];
        } else {
            return NULL;
        }
    }
    return buffer;
}

// Writes the parameters' bytes; returns the end of the last one.
static size_t write_parameters(const Launch *launch, Handle function, unsigned char *all) {
    size_t packed_size = 0, end = 0, offset, size;
    const unsigned char *packed = launch->parameters ? NULL : packed_parameters(launch->extra, &packed_size);
    fputs(", \"parameters\": [", record_file);
    for (size_t i = 0; !cuFuncGetParamInfo(function, i, &offset, &size); ++i) {
        const unsigned char *value = packed ? packed + offset : launch->parameters ? launch->parameters[i] : NULL;
        if (!value || offset + size > MOST_PARAMETER_BYTES || (packed && offset + size > packed_size)) {
            fprintf(record_file, "%s[%zu, null]", i ? ", " : "", offset);
            continue;
        }
        memcpy(all + offset, value, size);
        end = offset + size > end ? offset + size : end;
        fprintf(record_file, "%s[%zu, ", i ? ", " : "", offset);
        write_hex(value, size);
        fputc(']', record_file);
    }
    fputc(']', record_file);
    return end;
}

static void write_attributes(Handle function) {
    fputs(", \"attributes\": [", record_file);
    for (size_t i = 0; i < sizeof FUNCTION_ATTRIBUTES / sizeof *FUNCTION_ATTRIBUTES; ++i) {
        int value = -1;
        cuFuncGetAttribute(&value, FUNCTION_ATTRIBUTES[i], function);
        fprintf(record_file, "%s%d", i ? ", " : "", value);
    }
    fputc(']', record_file);
}

static void write_device(void) {
    static int written;
    int device = 0, major = 0, minor = 0, multiprocessors = 0, driver = 0;
    char name[256] = "";
    if (written || cuCtxGetDevice(&device) || cuDeviceGetName(name, sizeof name, device)) {
        return;
    }
    written = 1;
    cuDeviceGetAttribute(&major, DEVICE_MAJOR, device);
    cuDeviceGetAttribute(&minor, DEVICE_MINOR, device);
    cuDeviceGetAttribute(&multiprocessors, DEVICE_SM_COUNT, device);
    cuDriverGetVersion(&driver);
    fputs("{\"is\": \"device\", \"name\": ", record_file);
    write_text(name);
    fprintf(record_file, ", \"capability\": [%d, %d], \"multiprocessors\": %d, \"driver\": %d}\n", major, minor,
            multiprocessors, driver);
}

// Waits for everything before the launch; another stream of this thread may be in capture, which that must not end.
static int synchronize(void) {
    int mode = CAPTURE_RELAXED;
    cuThreadExchangeStreamCaptureMode(&mode);
    int failed = cuCtxSynchronize();
    cuThreadExchangeStreamCaptureMode(&mode);
    return failed;
}

// Records a launch, unless the filters leave it out or enough are recorded.
static void record(const Launch *launch) {
    Handle function = NULL, handle = NULL;
    const char *name = launch->name;
    if (is_full()) {
        __atomic_add_fetch(&launches_seen, 1, __ATOMIC_RELAXED);
        return;
    }
    pthread_mutex_lock(&mutex);
    ++launches_seen;
    int unresolved = resolve(launch->function, &function, &handle);
    if (!name && (unresolved || cuFuncGetName(&name, function))) {
        name = "";
    }
    if (is_wanted(name) && launches_kept < most_launches) {
        static unsigned char all[MOST_PARAMETER_BYTES];
        write_device();
        Module *module = unresolved ? NULL : module_of(handle);
        memset(all, 0, sizeof all);
        fputs("{\"is\": \"launch\", \"kernel\": ", record_file);
        write_text(name);
        fprintf(record_file, ", \"module\": %d, \"graph\": %d, \"shared\": %u", module ? (int)module->number : -1,
                launch->graph, launch->shape.shared);
        write_three("grid", launch->shape.grid);
        write_three("block", launch->shape.block);
        write_three("cluster", launch->cluster);
        if (module) {
            const char *unknown = with_memory ? launch->unknown : "captured without --memory";
            if (!unknown && synchronize()) {
                unknown = "the program could not wait for the GPU there";
            }
            write_attributes(function);
            size_t size = write_parameters(launch, function, all);
            write_buffers(all, size, unknown);
            write_variables(module, unknown);
        }
        fputs("}\n", record_file);
        fflush(record_file);
        ++launches_kept;
    }
    pthread_mutex_unlock(&mutex);
}

#endif
