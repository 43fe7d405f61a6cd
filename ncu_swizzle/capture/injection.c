// The capture: the CUDA driver loads this library into a program (CUDA_INJECTION64_PATH), and CUPTI calls it for each
// launch and each loaded module. Nothing of the program is changed; what it writes is described in recording.h.
//
//   cc -shared -fPIC -O2 -o injection.so injection.c -ldl -lpthread
#define _GNU_SOURCE
#include <dlfcn.h>

#include "graphs.h"

static __thread int inside;  // calls of our own
static int with_outputs;

static int is_called(const char *name, const char *function) {
    size_t length = strlen(function);
    return !strncmp(name, function, length) && (!name[length] || !strncmp(name + length, "_pts", 4));
}

static int is_capturing(Handle stream) {
    int status = 0;
    return cuStreamIsCapturing(stream, &status) == 0 && status == CAPTURING;
}

static void on_launch(const CallbackData *call) {
    Launch launch = {.name = call->symbol};
    Handle stream;
    memset(&in_call, 0, sizeof in_call);
    if (is_called(call->function, "cuLaunchKernelEx")) {
        const LaunchKernelEx *given = call->parameters;
        const LaunchConfig *config = given->config;
        stream = config->stream;
        launch.shape = config->shape;
        launch.function = given->function;
        launch.parameters = given->parameters;
        launch.extra = given->extra;
        for (unsigned i = 0; i < config->count; ++i) {
            if (config->attributes[i].id == ATTRIBUTE_CLUSTER) {
                memcpy(launch.cluster, config->attributes[i].value.cluster, sizeof launch.cluster);
            }
        }
    } else {
        const LaunchKernel *given = call->parameters;
        stream = given->stream;
        launch.shape = given->shape;
        launch.function = given->function;
        launch.parameters = given->parameters;
        launch.extra = is_called(call->function, "cuLaunchKernel") ? given->extra : NULL;
    }
    if (!is_capturing(stream)) {
        record(&launch);
    }
}

// What the driver refuses did not run: too much shared memory, a grid of zero.
static void on_return(const CallbackData *call, int launches_graph) {
    int error = *(int *)call->returned;
    const char *name = NULL;
    if (with_outputs && !error && !launches_graph && in_call.recorded) {
        write_outputs();
    }
    if (error && in_call.from < in_call.to) {
        HOLD_LOCK;
        cuGetErrorName(error, &name);
        refuse(in_call.from, in_call.to, in_call.recorded, name ? name : "an unknown error", in_call.name);
    }
}

static void on_call(const CallbackData *call) {
    const char *name = call->function;
    int launches = !strncmp(name, "cuLaunch", 8), launches_graph = is_called(name, "cuGraphLaunch");
    if ((launches || launches_graph) && call->site == EXIT) {
        on_return(call, launches_graph);
    } else if (launches) {
        on_launch(call);
    } else if (launches_graph) {
        const GraphLaunch *given = call->parameters;
        on_graph_launch(given->executable, is_capturing(given->stream));
    } else if (!strncmp(name, "cuGraph", 7)) {
        on_graph_call(call);
    } else if (!strncmp(name, "cuModuleLoad", 12)) {
        on_load(call, *(Handle *const *)call->parameters);
    } else if (call->site == ENTER) {
        on_unload(is_called(name, "cuModuleUnload") ? *(const Handle *)call->parameters : NULL);
    }
}

static int is_fork(void) {
    pid_t process = __atomic_load_n(&locked_for, __ATOMIC_ACQUIRE);
    return process && process != getpid();
}

static void on_event(void *user, int domain, uint32_t number, const void *data) {
    (void)user;
    if (is_fork()) {
        return;  // of a process that uses CUDA: the driver refuses whatever it asks for
    }
    if (domain == DOMAIN_RESOURCE) {
        if (number == RESOURCE_MODULE_LOADED) {
            on_module_loaded(data);  // also while a call of our own loads it
        }
    } else if (!inside) {
        inside = 1;
        on_call(data);
        inside = 0;
    }
}

// ------------------------------------------------------------------------------------------------ start and end

static const char *const CALLS[] = {
    "cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel", "cuGraphLaunch", "cuGraphInstantiate",
    "cuGraphInstantiate_v2", "cuGraphInstantiateWithFlags", "cuGraphInstantiateWithParams", "cuGraphExecUpdate",
    "cuGraphExecUpdate_v2", "cuGraphExecKernelNodeSetParams", "cuGraphExecKernelNodeSetParams_v2",
    "cuGraphExecNodeSetParams", "cuGraphExecChildGraphNodeSetParams", "cuGraphNodeSetEnabled", "cuGraphExecDestroy",
    "cuModuleLoad", "cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary", "cuModuleUnload",
    "cuLibraryUnload",
};
enum { MOST_CALLBACKS = 4096, IN_A_ROW = 64 };

// Asks CUPTI for the calls above; their numbers grow with its versions, so they are found by name.
static int enable_calls(Handle subscriber) {
    int enabled = 0, unnamed = 0;
    for (uint32_t number = 1; number < MOST_CALLBACKS && unnamed < IN_A_ROW; ++number) {
        const char *name = NULL;
        if (cuptiGetCallbackName(DOMAIN_DRIVER, number, &name) || !name) {
            ++unnamed;
            continue;
        }
        unnamed = 0;
        for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; ++i) {
            if (is_called(name, CALLS[i])) {
                enabled += !cuptiEnableCallback(1, subscriber, DOMAIN_DRIVER, number);
                break;
            }
        }
    }
    return enabled;
}

// Returns the first function that neither library has; NULL if all are found.
static const char *find_functions(void *driver, void *cupti) {
#define FIND_IN(library, wanted)                                  \
    if (!(*(void **)&wanted = dlsym(library, #wanted))) {         \
        return #wanted;                                           \
    }
#define FIND_IN_DRIVER(name, types) FIND_IN(driver, name)
#define FIND_IN_CUPTI(name, types) FIND_IN(cupti, name)
    DRIVER_FUNCTIONS(FIND_IN_DRIVER)
    CUPTI_FUNCTIONS(FIND_IN_CUPTI)
    return NULL;
}

static const char *subscribe(const char *path) {
    static char problem[512];
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *cupti = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!driver || !cupti) {
        const char *why = dlerror();
        snprintf(problem, sizeof problem, "cannot be loaded: %s", why ? why : "libcuda.so.1");
        return problem;
    }
    const char *missing = find_functions(driver, cupti);
    if (missing) {
        snprintf(problem, sizeof problem, "%s is missing: the driver must be of CUDA 12.4 or newer", missing);
        return problem;
    }
    Handle subscriber;
    int failed = cuptiSubscribe(&subscriber, on_event, NULL);
    if (failed) {
        snprintf(problem, sizeof problem, "CUPTI refused with status %d%s", failed,
                 failed == 39 ? ": another tool uses it" : "");
        return problem;
    }
    if (cuptiEnableCallback(1, subscriber, DOMAIN_RESOURCE, RESOURCE_MODULE_LOADED) || !enable_calls(subscriber)) {
        return "CUPTI has no callbacks to offer";
    }
    return NULL;
}

__attribute__((visibility("default"))) int InitializeInjection(void) {
    static int started;
    if (started++) {
        return 1;
    }
    HOLD_LOCK;
    if (!find_recording()) {
        return 0;
    }
    with_outputs = *setting("NCU_SWIZZLE_CAPTURE_OUTPUTS", "") != 0;
    const char *problem = read_filter();
    problem = problem ? problem : subscribe(setting("NCU_SWIZZLE_CAPTURE_CUPTI", "libcupti.so"));
    if (problem) {
        write_said("problem", problem);
        return 0;
    }
    uint32_t version = 0;
    Event start;
    cuptiGetVersion(&version);
    begin_event(&start, "start");
    put(", \"cupti\": %u", version);
    end_event();
    atexit(finish);
    return 1;
}
