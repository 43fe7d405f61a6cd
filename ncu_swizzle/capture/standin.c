// A stand-in for CUDA's runtime where there is no GPU: allocations, copies and launches are kept, and no kernel runs.
// A program that is linked with the shared runtime loads it in place of libcudart. What a program calls and this file
// lacks is generated as a function that says so, in missing.h; device.h has what the GPU that is stood in for answers.
//
//   cc -shared -fPIC -O2 -o libcudart.so.13 standin.c
#define _GNU_SOURCE
#include "filter.h"

#define API __attribute__((visibility("default")))

typedef struct {
    unsigned int x, y, z;
} Sizes;

typedef struct {
    int id, padding;
    unsigned int value[16];
} Attribute;

typedef struct {
    Sizes grid, block;
    size_t shared;
    void *stream;
    const Attribute *attributes;
    unsigned int count;
} Config;

// CUDA's errors that are answered here, as NVIDIA's runtime names and describes them.
#define ERRORS(USE)                                                                                           \
    USE(OK, 0, "cudaSuccess", "no error")                                                                     \
    USE(INVALID_VALUE, 1, "cudaErrorInvalidValue", "invalid argument")                                        \
    USE(OUT_OF_MEMORY, 2, "cudaErrorMemoryAllocation", "out of memory")                                       \
    USE(INVALID_PITCH, 12, "cudaErrorInvalidPitchValue", "invalid pitch argument")                            \
    USE(INVALID_SYMBOL, 13, "cudaErrorInvalidSymbol", "invalid device symbol")                                \
    USE(INVALID_DIRECTION, 21, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy")        \
    USE(INVALID_FUNCTION, 98, "cudaErrorInvalidDeviceFunction", "invalid device function")                    \
    USE(INVALID_DEVICE, 101, "cudaErrorInvalidDevice", "invalid device ordinal")                              \
    USE(INVALID_HANDLE, 400, "cudaErrorInvalidResourceHandle", "invalid resource handle")                     \
    USE(OUT_OF_RESOURCES, 701, "cudaErrorLaunchOutOfResources", "too many resources requested for launch")    \
    USE(TOO_MANY_TOGETHER, 720, "cudaErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch") \
    USE(INVALID_CLUSTER, 912, "cudaErrorInvalidClusterSize",                                                  \
        "a kernel launch error has occurred due to cluster misconfiguration")
#define NUMBERED(error, number, name, text) error = number,
enum { ERRORS(NUMBERED) };

enum { GAVE_UP = 97, MOST_PARAMETERS = 1024, DEFAULT_SHARED = 48 << 10 };
enum { INITIAL, KNOWN, UNKNOWN };  // of a variable: as in the cubin, as the host wrote it, as a kernel may have

typedef struct {
    int number, value;
} DeviceValue;

typedef struct {
    int offset, bytes, number;
} DeviceField;

#include "device.h"
#include "shadow.h"

typedef struct Module {
    uint32_t checksum;  // of its fat binary
    int group, has_variables;
    struct Module *next;
} Module;

typedef struct Function {
    const void *host;
    const char *name;
    Module *module;
    int registers, static_shared, most_threads;  // most_threads: 0 if only the hardware limits them
    int dynamic_shared;  // the most that a launch may ask for
    unsigned cluster[3];  // that it is compiled for; zeros without
    int wanted, large_clusters;  // large: of more than 8 blocks
    int count;  // of parameters; -1 if it is in no cubin
    size_t offset[MOST_PARAMETERS], bytes[MOST_PARAMETERS];
    struct Function *next;
} Function;

typedef struct Variable {
    const void *host;
    const char *name;
    unsigned char *content;
    size_t size;
    int constant, state;
    Module *module;
    struct Variable *next;
} Variable;

static Module *modules;
static Function *functions;
static Variable *variables;
static int groups, reported;
static const char *table;  // of the program's kernels, a line each
static __thread int last_error;

// A thread that forks holds the lock meanwhile, so that the child does not see what another thread has half changed.
static __thread int cancel_before_fork;
static void before_fork(void) { cancel_before_fork = take_lock(); }
static void after_fork(void) { release_lock(&cancel_before_fork); }
static void after_fork_in_child(void) {
    forget_parent();
    locked_for = getpid();
    pthread_setcancelstate(cancel_before_fork, NULL);
}

static void start(void) {
    static int started;
    char path[LONGEST_NAME];
    if (started++) {
        return;
    }
    if (!find_recording()) {
        fputs(*setting("NCU_SWIZZLE_CAPTURE", "")
                  ? "ncu-swizzle: the recording that NCU_SWIZZLE_CAPTURE names cannot be opened\n"
                  : "ncu-swizzle: this is not CUDA's runtime but the stand-in of ncu-swizzle capture --dry\n",
              stderr);
        _exit(GAVE_UP);
    }
    Mapped kernels = {.path = path};
    snprintf(path, sizeof path, "%s/kernels.table", record_folder);
    const char *problem = map_file(&kernels) ? read_filter() : "the table of the program's kernels";
    if (problem) {
        write_said("problem", problem);
    }
    table = kernels.at ? kernels.at : "";
    executing = *setting("NCU_SWIZZLE_CAPTURE_EXECUTE", "") != 0;
    Event begins;
    begin_event(&begins, "start");
    end_event();
    atexit(finish);
    pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

// In every function that reads or changes what is known of the program.
#define LOCKED HOLD_LOCK; start()

static int end_with(const char *is, const char *text) {
    LOCKED;
    if (!reported++) {
        write_said(is, text);
    }
    fflush(stdout);
    _exit(GAVE_UP);
}

// Ends the program with what cannot be stood in for.
static int give_up(const char *problem) { return end_with("problem", problem); }

static int answered(int status) {
    last_error = status ? status : last_error;
    return status;
}

// ------------------------------------------------------------------------------------------------ registration

static uint32_t checksum(const unsigned char *at, size_t size) {
    uint32_t sum = 0xffffffff;
    for (; size; --size, ++at) {
        sum ^= *at;
        for (int bit = 0; bit < 8; ++bit) {
            sum = sum >> 1 ^ (sum & 1 ? 0xedb88320 : 0);
        }
    }
    return ~sum;
}

API void **__cudaRegisterFatBinary(void *wrapper) {
    struct {
        int magic, version;
        const unsigned char *binary;
        void *file;
    } *given = wrapper;
    LOCKED;
    Module *module = calloc(1, sizeof *module);
    if (!module) {
        give_up("no memory for a module");
    }
    uint64_t size;
    memcpy(&size, given->binary + 8, 8);
    module->checksum = checksum(given->binary, 16 + size);
    module->next = modules;
    modules = module;
    return (void **)module;
}

API void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
API void __cudaUnregisterFatBinary(void **handle) { (void)handle; }
API char __cudaInitModule(void **handle) { return handle != NULL; }

// Finds what the table says of a kernel: checksum, name, registers, static shared memory, most threads, cluster, and count,
// offsets and sizes of its parameters.
static void find_properties(Function *function) {
    size_t length = strlen(function->name);
    function->count = -1;
    for (const char *line = table; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        char *at;
        uint32_t sum = (uint32_t)strtoul(line, &at, 16);
        if (sum != function->module->checksum || strncmp(++at, function->name, length) || at[length] != ' ') {
            continue;
        }
        at += length;
        function->registers = (int)strtol(at, &at, 10);
        function->static_shared = (int)strtol(at, &at, 10);
        function->most_threads = (int)strtol(at, &at, 10);
        function->dynamic_shared = DEFAULT_SHARED - function->static_shared;
        for (int axis = 0; axis < 3; ++axis) {
            function->cluster[axis] = (unsigned)strtoul(at, &at, 10);
        }
        int count = (int)strtol(at, &at, 10);
        for (int i = 0; i < count && i < MOST_PARAMETERS; ++i) {
            function->offset[i] = strtoul(at, &at, 10);
            function->bytes[i] = strtoul(at, &at, 10);
        }
        function->count = count > MOST_PARAMETERS ? -1 : count;
        return;
    }
}

API void __cudaRegisterFunction(void **handle, const void *host, char *device, const char *name, int limit, void *thread,
                                void *block, void *block_sizes, void *grid_sizes, int *warp) {
    (void)device, (void)limit, (void)thread, (void)block, (void)block_sizes, (void)grid_sizes, (void)warp;
    LOCKED;
    Function *function = calloc(1, sizeof *function);
    if (!function) {
        give_up("no memory for a function");
    }
    function->host = host;
    function->name = name;
    function->module = (Module *)handle;
    function->wanted = is_wanted(name);
    find_properties(function);
    function->next = functions;
    __atomic_store_n(&functions, function, __ATOMIC_RELEASE);
}

API void __cudaRegisterVar(void **handle, void *host, char *device, const char *name, int external, size_t size,
                           int constant, int global) {
    (void)device, (void)external, (void)global;
    LOCKED;
    Variable *variable = calloc(1, sizeof *variable);
    if (!variable || !(variable->content = calloc(1, size ? size : 1))) {
        give_up("no memory for a variable");
    }
    variable->host = host;
    variable->name = name;
    variable->size = size;
    variable->constant = constant;
    variable->module = (Module *)handle;
    variable->module->has_variables |= !constant;
    variable->next = variables;
    variables = variable;
}

// Without the lock: functions are only ever added.
static Function *function_of(const void *host) {
    Function *function = __atomic_load_n(&functions, __ATOMIC_ACQUIRE);
    while (function && function->host != host) {
        function = function->next;
    }
    return function;
}

static Variable *variable_of(const void *host) {
    Variable *variable = variables;
    while (variable && variable->host != host) {
        variable = variable->next;
    }
    return variable;
}

#include "standin_memory.h"
#include "standin_device.h"
#include "standin_launches.h"
#include "standin_driver.h"
#include "missing.h"
