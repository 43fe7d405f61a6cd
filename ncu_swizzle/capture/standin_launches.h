// Launches: what a device would refuse, what is recorded, and what is unknown afterwards: of standin.c, which includes this.

typedef struct {
    Sizes grid, block, cluster;  // no cluster: zeros
    size_t shared;
    void **arguments;
    int together;  // a cooperative launch
} Launch;

enum { LARGEST_CLUSTER = 8, LARGEST_IF_ASKED_FOR = 16, LIMIT_THREADS = 1, LIMIT_BLOCK = 2, LIMIT_GRID = 5, SM_COUNT = 16 };

// Returns the error with which a device refuses a launch; OK if it does not.
static int launch_error(const Function *function, const Launch *launch) {
    const unsigned *grid = &launch->grid.x, *block = &launch->block.x, *named = &launch->cluster.x;
    const unsigned *cluster = named[0] || named[1] || named[2] ? named : function->cluster;
    uint64_t threads = 1, blocks = 1, clustered = 1, divides = 1;
    for (int axis = 0; axis < 3; ++axis) {
        if (!grid[axis] || !block[axis] || grid[axis] > (unsigned)device_value(LIMIT_GRID + axis) ||
            block[axis] > (unsigned)device_value(LIMIT_BLOCK + axis)) {
            return INVALID_VALUE;
        }
        threads *= block[axis];
        blocks *= grid[axis];
        clustered *= cluster[axis];
        divides &= cluster[axis] && grid[axis] % cluster[axis] == 0;
    }
    uint64_t bound = function->most_threads ? function->most_threads : device_value(LIMIT_THREADS);
    if (threads > (uint64_t)device_value(LIMIT_THREADS) || threads > bound) {
        return INVALID_VALUE;
    }
    if (threads > (uint64_t)most_threads(function)) {
        return OUT_OF_RESOURCES;
    }
    if (launch->shared > (size_t)function->dynamic_shared) {
        return INVALID_VALUE;
    }
    if ((cluster[0] || cluster[1] || cluster[2]) &&
        (!divides || clustered > (function->large_clusters ? LARGEST_IF_ASKED_FOR : LARGEST_CLUSTER))) {
        return INVALID_CLUSTER;
    }
    if (launch->together) {
        int fitting = 0;
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fitting, function->host, (int)threads, launch->shared);
        if (blocks > (uint64_t)fitting * (uint64_t)device_value(SM_COUNT)) {
            return TOO_MANY_TOGETHER;
        }
    }
    for (int i = 0; i < function->count; ++i) {
        if (!launch->arguments || !launch->arguments[i]) {
            return INVALID_VALUE;
        }
    }
    return OK;
}

static void put_parameters(const Function *function, void **arguments) {
    put(", \"parameters\": [");
    for (int i = 0; i < function->count; ++i) {
        put("%s[%zu, ", i ? ", " : "", function->offset[i]);
        put_hex(arguments[i], function->bytes[i]);
        put("]");
    }
    put("]");
}

static void put_variables(const Module *module) {
    static const char *const WHY[] = {[INITIAL] = "initial", [UNKNOWN] = "a kernel that did not run may have written it"};
    const char *separator = "";
    put(", \"variables\": [");
    for (Variable *variable = variables; variable; variable = variable->next) {
        FileName name;
        if (variable->module != module || !variable->size) {
            continue;
        }
        put("%s{\"name\": ", separator);
        put_text(variable->name);
        put(", \"bytes\": %zu, ", variable->size);
        int known = variable->state == KNOWN;
        put_contents(&name, known ? write_contents(&name, variable->content, variable->size) : WHY[variable->state]);
        put("}");
        separator = ", ";
    }
    put("]");
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

static void write_launch(const Function *function, const Launch *launch, uint64_t seen) {
    Event event;
    begin_event(&event, "dry");
    put(", \"seen\": %llu, \"binary\": %u, \"kernel\": ", (unsigned long long)seen, function->module->checksum);
    put_text(function->name);
    put(", \"graph\": 0, \"shared\": %zu", launch->shared);
    put_three("grid", &launch->grid.x);
    put_three("block", &launch->block.x);
    put_three("cluster", &launch->cluster.x);
    put_parameters(function, launch->arguments);
    put_reached();
    put_variables(function->module);
    end_event();
}

// Waits until whoever reads the recording has executed the launch, and takes what it left: a status, the length of a text
// and the text, which says why something is unknown; then address, size and bytes of all that is known. Variables of the
// module have their number in place of an address. All starts at multiples of 8 bytes.
static void take_results(const Module *module, uint64_t seen) {
    char path[LONGEST_NAME];
    Mapped result = {.path = path};
    snprintf(path, sizeof path, "%s/%s-r%llu", record_folder, record_name, (unsigned long long)seen);
    while (!map_file(&result)) {
        usleep(1000);
    }
    const uint64_t *at = result.at, *end = at + result.size / 8;
    if (at[0]) {  // a fault, which ends the program
        fflush(stdout);
        _exit(GAVE_UP);
    }
    snprintf(unknown_why, sizeof unknown_why, "%.*s", (int)at[1], (const char *)(at + 2));
    at += 2 + (at[1] + 7) / 8;
    while (at < end) {
        Allocation *a = allocation_at((const void *)(uintptr_t)at[0]);
        if (a) {
            size_t from = at[0] - a->start;
            memcpy((void *)(uintptr_t)at[0], at + 2, at[1]);
            learn(a, from, from + at[1]);
            a->group = a->spans == 1 && a->known->to - a->known->from == a->size ? 0 : a->group;
        }
        uint64_t number = 0;
        for (Variable *variable = variables; variable && !a; variable = variable->next) {
            if (variable->module == module && variable->size && number++ == at[0] && variable->size == at[1]) {
                memcpy(variable->content, at + 2, at[1]);
                variable->state = KNOWN;
            }
        }
        at += 2 + (at[1] + 7) / 8;
    }
    munmap(result.at, result.size);
    for (const Allocation *a = allocations; a; a = a->next) {
        if (a->shared && a->group == groups) {  // the host reads it whenever it wants
            end_with("unknown", *unknown_why ? unknown_why : "managed or pinned memory");
        }
    }
}

static int launched(const void *host, const Launch *launch) {
    LOCKED;
    Function *function = function_of(host);
    uint64_t seen = count(&counters->seen, 1);
    char problem[LONGEST_NAME + 200];
    if (function && function->count < 0) {
        snprintf(problem, sizeof problem, "%.4000s is in none of the program's cubins for this GPU", function->name);
        give_up(problem);
    }
    int error = function ? launch_error(function, launch) : INVALID_HANDLE, written = 0;
    if (error) {
        refuse(seen, seen + 1, 0, cudaGetErrorName(error), function ? function->name : "");
        return answered(error);
    }
    reach(function, launch->arguments);
    if (!function->wanted) {
        count(&counters->unwanted, 1);
    } else if ((written = claim())) {
        write_launch(function, launch, seen);
    }
    leave(function);
    if (executing && written) {
        take_results(function->module, seen);
    } else if (executing) {
        snprintf(unknown_why, sizeof unknown_why, "a launch of %.100s was left out, by -k or -c", function->name);
    }
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

#define LAUNCHES(name, together)                                                                              \
    API int name(const void *function, Sizes grid, Sizes block, void **arguments, size_t shared, void *stream) { \
        Launch launch = {grid, block, {0, 0, 0}, shared, arguments, together};                                \
        (void)stream;                                                                                         \
        return launched(function, &launch);                                                                   \
    }
LAUNCHES(cudaLaunchKernel, 0)
LAUNCHES(cudaLaunchKernel_ptsz, 0)
LAUNCHES(__cudaLaunchKernel, 0)
LAUNCHES(__cudaLaunchKernel_ptsz, 0)
LAUNCHES(cudaLaunchCooperativeKernel, 1)
LAUNCHES(cudaLaunchCooperativeKernel_ptsz, 1)

API int cudaLaunchKernelExC(const Config *config, const void *function, void **arguments) {
    const unsigned *together = attribute_of(config, ATTRIBUTE_COOPERATIVE);
    Launch launch = {
        config->grid, config->block, cluster_of(config), config->shared, arguments, together && *together,
    };
    return launched(function, &launch);
}
API int cudaLaunchKernelExC_ptsz(const Config *config, const void *function, void **arguments) {
    return cudaLaunchKernelExC(config, function, arguments);
}

// nvcc's stub of a kernel asks for this once, while it holds the guard of a static variable. A thread that waited here for
// the lock would hold the guard meanwhile, and a process forked then would wait for it forever: so there is no lock.
API int __cudaGetKernel(const void **kernel, const void *function) {
    *kernel = function;
    return function_of(function) ? OK : answered(INVALID_FUNCTION);
}
