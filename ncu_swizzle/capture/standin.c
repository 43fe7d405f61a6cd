// A stand-in for CUDA's runtime where there is no GPU: allocations, copies and launches are kept, and no kernel runs.
// A program that is linked with the shared runtime loads it in place of libcudart. What a program calls and this file
// lacks is generated as a function that says so, in missing.h; device.h has what the GPU that is stood in for answers.
//
//   cc -shared -fPIC -O2 -o libcudart.so.13 standin.c
#define _GNU_SOURCE
#include "filter.h"
#include "shadow.h"

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

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_SYMBOL = 13, INVALID_FUNCTION = 98, GAVE_UP = 97 };
enum { ATTRIBUTE_CLUSTER = 4, MOST_PARAMETERS = 1024, DEFAULT_SHARED = 48 << 10 };
enum { INITIAL, KNOWN, UNKNOWN };  // of a variable: as in the cubin, as the host wrote it, as a kernel may have

typedef struct {
    int number, value;
} DeviceValue;

typedef struct {
    int offset, bytes, number;
} DeviceField;

#include "device.h"

typedef struct Module {
    const unsigned char *binary;
    size_t size;
    int group, has_variables;
    struct Module *next;
} Module;

typedef struct Function {
    const void *host;
    const char *name;
    Module *module;
    int registers, static_shared, most_threads;  // most_threads: 0 if only the hardware limits them
    int dynamic_shared;  // the most that a launch may ask for
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
static int last_error, groups;
static int reported;

static void start(void) {
    static int started;
    if (started++) {
        return;
    }
    open_mutex();
    if (!open_record_file()) {
        fputs("ncu-swizzle: this is no CUDA runtime, but the stand-in of ncu-swizzle capture --dry\n", stderr);
        _exit(GAVE_UP);
    }
    const char *problem = read_filter();
    if (problem) {
        write_problem(problem);
    }
    fputs("{\"is\": \"start\"}\n", record_file);
    atexit(finish);
}

// Ends the program with what cannot be stood in for.
static int give_up(const char *problem) {
    start();
    if (!reported++) {
        write_problem(problem);
    }
    fflush(stdout);
    _exit(GAVE_UP);
}

static int answered(int status) {
    last_error = status ? status : last_error;
    return status;
}

// ------------------------------------------------------------------------------------------------ registration

API void **__cudaRegisterFatBinary(void *wrapper) {
    struct {
        int magic, version;
        const unsigned char *binary;
        void *file;
    } *given = wrapper;
    Module *module = calloc(1, sizeof *module);
    start();
    if (!module) {
        give_up("no memory for a module");
    }
    uint64_t size;
    module->binary = given->binary;
    memcpy(&size, given->binary + 8, 8);
    module->size = 16 + size;
    module->next = modules;
    modules = module;
    return (void **)module;
}

API void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
API void __cudaUnregisterFatBinary(void **handle) { (void)handle; }
API char __cudaInitModule(void **handle) { return handle != NULL; }

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

// Finds what the table beside the recording says of a kernel: checksum, name, registers, static shared memory, most
// threads, and count, offsets and sizes of its parameters.
static void find_properties(Function *function) {
    char path[LONGEST_NAME], name[LONGEST_NAME * 4];
    unsigned int sum, wanted = checksum(function->module->binary, function->module->size);
    snprintf(path, sizeof path, "%s/kernels.table", record_folder);
    FILE *table = fopen(path, "r");
    function->count = -1;
    while (table && fscanf(table, "%x %16000s", &sum, name) == 2) {
        int registers, shared, threads, count = 0, same = sum == wanted && !strcmp(name, function->name);
        if (fscanf(table, "%d %d %d %d", &registers, &shared, &threads, &count) != 4 || count < 0 || count > MOST_PARAMETERS) {
            break;
        }
        for (int i = 0; i < count; ++i) {
            size_t offset, bytes;
            if (fscanf(table, "%zu %zu", &offset, &bytes) == 2 && same) {
                function->offset[i] = offset;
                function->bytes[i] = bytes;
            }
        }
        if (same) {
            function->registers = registers;
            function->static_shared = shared;
            function->dynamic_shared = DEFAULT_SHARED - shared;
            function->most_threads = threads;
            function->count = count;
            break;
        }
    }
    if (table) {
        fclose(table);
    }
}

API void __cudaRegisterFunction(void **handle, const void *host, char *device, const char *name, int limit, void *thread,
                                void *block, void *block_sizes, void *grid_sizes, int *warp) {
    (void)device, (void)limit, (void)thread, (void)block, (void)block_sizes, (void)grid_sizes, (void)warp;
    Function *function = calloc(1, sizeof *function);
    if (!function) {
        give_up("no memory for a function");
    }
    function->host = host;
    function->name = name;
    function->module = (Module *)handle;
    find_properties(function);
    function->next = functions;
    functions = function;
}

API void __cudaRegisterVar(void **handle, void *host, char *device, const char *name, int external, size_t size,
                           int constant, int global) {
    (void)device, (void)external, (void)global;
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

static Function *function_of(const void *host) {
    Function *function = functions;
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

// ------------------------------------------------------------------------------------------------ launches

static void write_parameters(const Function *function, void **arguments) {
    fputs(", \"parameters\": [", record_file);
    for (int i = 0; i < function->count; ++i) {
        fprintf(record_file, "%s[%zu, ", i ? ", " : "", function->offset[i]);
        write_hex(arguments[i], function->bytes[i]);
        fputc(']', record_file);
    }
    fputc(']', record_file);
}

static void write_variables(const Module *module) {
    const char *separator = "";
    fputs(", \"variables\": [", record_file);
    for (Variable *variable = variables; variable; variable = variable->next) {
        if (variable->module != module || !variable->size) {
            continue;
        }
        fprintf(record_file, "%s{\"name\": ", separator);
        write_text(variable->name);
        fprintf(record_file, ", \"bytes\": %zu, \"content\": ", variable->size);
        separator = ", ";
        if (variable->state == KNOWN && write_file('m', images, variable->content, variable->size)) {
            fprintf(record_file, "%u}", images++);
            continue;
        }
        fputs("null, \"why\": ", record_file);
        write_text(variable->state == INITIAL ? "initial" : "a kernel that did not run may have written it");
        fputc('}', record_file);
    }
    fputc(']', record_file);
}

// Marks what a kernel reaches by its parameters and by its module's variables.
static void reach(const Function *function, void **arguments) {
    for (int i = 0; i < function->count; ++i) {
        reach_words(arguments[i], function->bytes[i]);
    }
    for (Variable *variable = variables; variable; variable = variable->next) {
        if (variable->module == function->module) {
            reach_words(variable->content, variable->size);
        }
    }
    reach_group(function->module->group);
    reach_all();
}

// What the kernel may have written is unknown from here on, whether its launch was recorded or not.
static void leave(const Function *function) {
    lose_reached(++groups);
    function->module->group = function->module->has_variables ? groups : 0;
    for (Variable *variable = variables; variable; variable = variable->next) {
        if (variable->module == function->module && !variable->constant) {
            variable->state = UNKNOWN;
        }
    }
}

static int launch(const void *host, Sizes grid, Sizes block, void **arguments, size_t shared, Sizes cluster) {
    Function *function = function_of(host);
    char problem[LONGEST_NAME + 200];
    start();
    if (!function) {
        return answered(INVALID_FUNCTION);
    }
    if (function->count < 0) {
        snprintf(problem, sizeof problem, "%.4000s is in none of the program's cubins for this GPU", function->name);
        give_up(problem);
    }
    reach(function, arguments);
    ++launches_seen;
    if (!is_full() && is_wanted(function->name)) {
        ++launches_kept;
        fprintf(record_file, "{\"is\": \"dry\", \"binary\": %u, \"kernel\": ",
                checksum(function->module->binary, function->module->size));
        write_text(function->name);
        fprintf(record_file, ", \"graph\": 0, \"shared\": %zu", shared);
        write_three("grid", &grid.x);
        write_three("block", &block.x);
        write_three("cluster", &cluster.x);
        write_parameters(function, arguments);
        write_reached();
        write_variables(function->module);
        fputs("}\n", record_file);
        fflush(record_file);
    }
    leave(function);
    return OK;
}

static __thread struct {
    Sizes grid, block;
    size_t shared;
    void *stream;
} configurations[64];
static __thread int configured;

API unsigned __cudaPushCallConfiguration(Sizes grid, Sizes block, size_t shared, void *stream) {
    if (configured == 64) {
        return 1;
    }
    configurations[configured].grid = grid;
    configurations[configured].block = block;
    configurations[configured].shared = shared;
    configurations[configured++].stream = stream;
    return 0;
}

API int __cudaPopCallConfiguration(Sizes *grid, Sizes *block, size_t *shared, void **stream) {
    if (!configured) {
        return INVALID_VALUE;
    }
    *grid = configurations[--configured].grid;
    *block = configurations[configured].block;
    *shared = configurations[configured].shared;
    *stream = configurations[configured].stream;
    return OK;
}

#define LAUNCHES(name)                                                                                        \
    API int name(const void *function, Sizes grid, Sizes block, void **arguments, size_t shared, void *stream) { \
        (void)stream;                                                                                         \
        return launch(function, grid, block, arguments, shared, (Sizes){0, 0, 0});                            \
    }
LAUNCHES(cudaLaunchKernel)
LAUNCHES(cudaLaunchKernel_ptsz)
LAUNCHES(__cudaLaunchKernel)
LAUNCHES(__cudaLaunchKernel_ptsz)
LAUNCHES(cudaLaunchCooperativeKernel)
LAUNCHES(cudaLaunchCooperativeKernel_ptsz)

static Sizes cluster_of(const Config *config) {
    Sizes cluster = {0, 0, 0};
    for (unsigned i = 0; i < config->count; ++i) {
        if (config->attributes[i].id == ATTRIBUTE_CLUSTER) {
            memcpy(&cluster, config->attributes[i].value, sizeof cluster);
        }
    }
    return cluster;
}

API int cudaLaunchKernelExC(const Config *config, const void *function, void **arguments) {
    return launch(function, config->grid, config->block, arguments, config->shared, cluster_of(config));
}
API int cudaLaunchKernelExC_ptsz(const Config *config, const void *function, void **arguments) {
    return cudaLaunchKernelExC(config, function, arguments);
}

API int __cudaGetKernel(const void **kernel, const void *function) {
    *kernel = function;
    return function_of(function) ? OK : answered(INVALID_FUNCTION);
}

#include "standin_memory.h"
#include "standin_device.h"
#include "standin_driver.h"
#include "missing.h"
