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

// Puts the parameters' bytes; returns the end of the last one.
static size_t put_parameters(const Launch *launch, Handle function, unsigned char *all) {
    size_t packed_size = 0, end = 0, offset, size;
    const unsigned char *packed = launch->parameters ? NULL : packed_parameters(launch->extra, &packed_size);
    put(", \"parameters\": [");
    for (size_t i = 0; !cuFuncGetParamInfo(function, i, &offset, &size); ++i) {
        const unsigned char *value = packed ? packed + offset : launch->parameters ? launch->parameters[i] : NULL;
        if (!value || offset + size > MOST_PARAMETER_BYTES || (packed && offset + size > packed_size)) {
            put("%s[%zu, null]", i ? ", " : "", offset);
            continue;
        }
        memcpy(all + offset, value, size);
        end = offset + size > end ? offset + size : end;
        put("%s[%zu, ", i ? ", " : "", offset);
        put_hex(value, size);
        put("]");
    }
    put("]");
    return end;
}

static void put_attributes(Handle function) {
    put(", \"attributes\": [");
    for (size_t i = 0; i < sizeof FUNCTION_ATTRIBUTES / sizeof *FUNCTION_ATTRIBUTES; ++i) {
        int value = -1;
        cuFuncGetAttribute(&value, FUNCTION_ATTRIBUTES[i], function);
        put("%s%d", i ? ", " : "", value);
    }
    put("]");
}

static void write_device(void) {
    static int written;
    int device = 0, major = 0, minor = 0, multiprocessors = 0, driver = 0;
    char name[256] = "";
    Event event;
    if (written || cuCtxGetDevice(&device) || cuDeviceGetName(name, sizeof name, device)) {
        return;
    }
    written = 1;
    cuDeviceGetAttribute(&major, DEVICE_MAJOR, device);
    cuDeviceGetAttribute(&minor, DEVICE_MINOR, device);
    cuDeviceGetAttribute(&multiprocessors, DEVICE_SM_COUNT, device);
    cuDriverGetVersion(&driver);
    begin_event(&event, "device");
    put(", \"name\": ");
    put_text(name);
    put(", \"capability\": [%d, %d], \"multiprocessors\": %d, \"driver\": %d", major, minor, multiprocessors, driver);
    end_event();
}

// Waits for everything before the launch; another stream of this thread may be in capture, which that must not end.
static int synchronize(void) {
    int mode = CAPTURE_RELAXED;
    cuThreadExchangeStreamCaptureMode(&mode);
    int failed = cuCtxSynchronize();
    cuThreadExchangeStreamCaptureMode(&mode);
    return failed;
}

static int has_filter(void) {
    return has_pattern || *wanted_name;
}

static int is_full(void) {
    return count(&counters->claimed, 0) >= most_launches;
}

// What the call that a thread is in launches: the numbers in `seen`, how many of these launches are recorded, and the
// last one's name.
static __thread struct {
    uint64_t from, to, recorded;
    const char *name;
} in_call;

static void see(uint64_t launches) {
    uint64_t number = count(&counters->seen, launches);
    in_call.from = in_call.from == in_call.to ? number : in_call.from;
    in_call.to = number + launches;
}

static void write_launch(const Launch *launch, const char *name, Handle function, Module *module) {
    static unsigned char all[MOST_PARAMETER_BYTES];
    Event event;
    begin_event(&event, "launch");
    put(", \"seen\": %llu, \"kernel\": ", (unsigned long long)in_call.to - 1);
    put_text(name);
    put(", \"module\": %d, \"graph\": %d, \"shared\": %u", module ? (int)module->number : -1, launch->graph,
        launch->shape.shared);
    put_three("grid", launch->shape.grid);
    put_three("block", launch->shape.block);
    put_three("cluster", launch->cluster);
    if (module) {
        const char *unknown = with_memory ? launch->unknown : "captured without --memory";
        if (!unknown && synchronize()) {
            unknown = "the program could not wait for the GPU there";
        }
        memset(all, 0, sizeof all);
        put_attributes(function);
        size_t size = put_parameters(launch, function, all);
        part_count = 0;
        put_buffers(all, size, unknown);
        put_variables(module, unknown);
    }
    end_event();
}

// Writes what the buffers and variables hold after the launch that this call has recorded.
static void write_outputs(void) {
    HOLD_LOCK;
    Event event;
    const char *unknown = synchronize() ? "the program could not wait for the GPU after it" : NULL;
    begin_event(&event, "outputs");
    put(", \"seen\": %llu, \"contents\": [", (unsigned long long)in_call.to - 1);
    for (unsigned i = 0; i < part_count; ++i) {
        put("%s{\"bytes\": %zu, ", i ? ", " : "", parts[i].size);
        put_device_memory(parts[i].address, parts[i].size, unknown);
        put("}");
    }
    put("]");
    end_event();
}

// Records a launch, unless the filters leave it out or enough are recorded.
//
// A program may launch what is no kernel, a function of the host for one. The driver refuses it, but CUPTI has read its
// name by then, from anywhere: names count only of what has a module.
static void record(const Launch *launch) {
    Handle function = NULL, handle = NULL;
    const char *name = NULL;
    see(1);
    if (is_full() && !has_filter()) {
        return;
    }
    HOLD_LOCK;
    int unresolved = resolve(launch->function, &function, &handle);
    if (!unresolved && !(name = launch->name) && cuFuncGetName(&name, function)) {
        name = NULL;
    }
    in_call.name = name = name ? name : "";
    if (!is_wanted(name)) {
        count(&counters->unwanted, 1);
    } else if (claim()) {
        ++in_call.recorded;
        write_device();
        write_launch(launch, name, function, unresolved ? NULL : module_of(handle));
    }
}

#endif
