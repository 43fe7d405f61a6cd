// A program with a CUDA driver and a CUPTI of its own, which do just enough to call the injected library as the real ones
// do: one module with one kernel, `columns` of tests/data/programs/driver.cu, in the cubin that is named.
//
//   cc -I…/capture -shared -fPIC -DDRIVER -Wl,-soname,libcuda.so.1 -o libcuda.so.1 fake_driver.c
//   cc -I…/capture -o app fake_driver.c ./libcuda.so.1 -ldl -lpthread
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

enum { FUNCTION = 7, KERNEL, INVALID_HANDLE = 400, NOT_FOUND = 500, STREAM_THAT_CAPTURES = 3 };

typedef struct {
    int kind;
    const char *name;
} Code;

typedef struct {
    int type;
    KernelNode kernel;
    Handle before;
} GraphNode;

typedef void (*Callback)(void *, int, uint32_t, const void *);

#ifdef DRIVER
static int module, subscriber;
Callback subscribed;
Code columns = {FUNCTION, "columns"}, columns_kernel = {KERNEL, "columns"};
unsigned char device_memory[2][64];
int variable = 42;
GraphNode graph_nodes[3];

int cuDriverGetVersion(int *v) { return *v = 13000, 0; }
int cuGetErrorName(int e, const char **name) { return *name = e == 1 ? "CUDA_ERROR_INVALID_VALUE" : NULL, 0; }
int cuCtxGetDevice(int *d) { return *d = 0, 0; }
int cuDeviceGetName(char *name, int size, int d) { return (void)d, snprintf(name, (size_t)size, "Fake \"GPU\""), 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { return (void)d, *v = a == 75 ? 9 : a == 76 ? 0 : 132, 0; }
int cuFuncGetModule(Handle *m, Handle f) { return ((Code *)f)->kind == FUNCTION ? *m = &module, 0 : INVALID_HANDLE; }
int cuKernelGetFunction(Handle *f, Handle k) { return ((Code *)k)->kind == KERNEL ? *f = &columns, 0 : INVALID_HANDLE; }
int cuFuncGetName(const char **name, Handle f) { return *name = ((Code *)f)->name, 0; }
int cuFuncGetAttribute(int *v, int a, Handle f) {
    static int loaded;
    (void)f;
    if (!loaded++) {  // as lazy loading does, in the middle of what is asked for a launch
        LoadedModule other = {.module = 2, .size = 1, .cubin = "x"};
        subscribed(NULL, DOMAIN_RESOURCE, RESOURCE_MODULE_LOADED, &(ResourceData){.descriptor = &other});
    }
    return *v = a == 4 ? 32 : a == 6 ? 90 : 0, 0;
}
int cuFuncGetParamInfo(Handle f, size_t i, size_t *offset, size_t *size) {
    static const size_t offsets[] = {0, 8, 12, 24}, sizes[] = {8, 1, 12, 8};
    (void)f;
    return i < 4 ? *offset = offsets[i], *size = sizes[i], 0 : 1;
}
int cuModuleGetFunctionCount(unsigned *n, Handle m) { return (void)m, *n = 1, 0; }
int cuModuleEnumerateFunctions(Handle *f, unsigned n, Handle m) { return (void)n, (void)m, *f = &columns, 0; }
int cuModuleGetGlobal_v2(DevicePointer *p, size_t *n, Handle m, const char *name) {
    return (void)m, strcmp(name, "variable") ? NOT_FOUND : (*p = (uintptr_t)&variable, *n = sizeof variable, 0);
}
int cuMemGetAddressRange_v2(DevicePointer *base, size_t *size, DevicePointer at) {
    for (int i = 0; i < 2; ++i) {
        uintptr_t start = (uintptr_t)device_memory[i];
        if (at >= start && at < start + 64) {
            return *base = start, *size = 64, 0;
        }
    }
    return NOT_FOUND;
}
int cuMemcpyDtoH_v2(void *to, DevicePointer from, size_t size) { return memcpy(to, (void *)from, size), 0; }
int cuCtxSynchronize(void) { return 0; }
int cuStreamIsCapturing(Handle s, int *status) { return *status = (uintptr_t)s == STREAM_THAT_CAPTURES, 0; }
int cuThreadExchangeStreamCaptureMode(int *mode) { return (void)mode, 0; }
int cuGraphGetNodes(Handle g, Handle *nodes, size_t *n) {
    (void)g;
    for (int i = 0; nodes && i < 3; ++i) {
        nodes[i] = &graph_nodes[i];
    }
    return *n = 3, 0;
}
int cuGraphNodeGetType(Handle n, int *type) { return *type = ((GraphNode *)n)->type, 0; }
int cuGraphNodeGetDependencies_v2(Handle n, Handle *before, void *edges, size_t *count) {
    (void)edges;
    before[0] = ((GraphNode *)n)->before;
    return *count = before[0] != NULL, 0;
}
int cuGraphKernelNodeGetParams_v2(Handle n, KernelNode *out) { return *out = ((GraphNode *)n)->kernel, 0; }
int cuGraphKernelNodeGetAttribute(Handle n, int a, void *out) { return (void)n, (void)a, memset(out, 0, 64), 0; }
int cuGraphChildGraphNodeGetGraph(Handle n, Handle *g) { return (void)n, (void)g, NOT_FOUND; }

static const char *const NAMES[] = {"INVALID", "cuLaunchKernel", "cuGraphLaunch", "cuSomethingElse", "cuLaunchKernelEx_ptsz"};
int cuptiGetVersion(uint32_t *v) { return *v = 130001, 0; }
int cuptiSubscribe(Handle *s, Callback callback, void *user) { return (void)user, subscribed = callback, *s = &subscriber, 0; }
int cuptiEnableCallback(uint32_t on, Handle s, int domain, uint32_t number) {
    return (void)on, (void)s, (void)domain, number == 3;  // nobody may ask for cuSomethingElse
}
int cuptiGetCallbackName(int domain, uint32_t number, const char **name) {
    return (void)domain, number < sizeof NAMES / sizeof *NAMES ? *name = NAMES[number], 0 : 1;
}
#else
extern Callback subscribed;
extern Code columns, columns_kernel;
extern unsigned char device_memory[2][64];
extern int variable;
extern GraphNode graph_nodes[3];

static void called(const char *name, const void *parameters, int status) {
    for (int site = ENTER; site <= EXIT; ++site) {
        CallbackData data = {.site = site, .function = name, .parameters = parameters, .returned = &status};
        data.symbol = strncmp(name, "cuLaunch", 8) ? NULL : "columns";
        subscribed(NULL, DOMAIN_DRIVER, 1, &data);
    }
}

static void call(const char *name, const void *parameters) { called(name, parameters, 0); }

static void *call_often(void *launch) {
    for (int i = 0; i < 50; ++i) {
        call("cuLaunchKernel", launch);
    }
    return NULL;
}

// Launches 201 times, and does what a program may do: it closes descriptors, forks, has threads, and execs itself.
static void misuse(char **argv, LaunchKernel *launch) {
    pthread_t threads[4];
    for (int i = 3; i < 64; ++i) {
        close(i);
    }
    for (int i = 3; i < 16; ++i) {
        open("own.txt", O_CREAT | O_RDWR, 0644);
    }
    call("cuLaunchKernel", launch);
    if (!fork()) {
        call("cuLaunchKernel", launch);  // which the driver refuses, after a fork
        exit(0);
    }
    wait(NULL);
    for (int i = 0; i < 4; ++i) {
        pthread_create(&threads[i], NULL, call_often, launch);
    }
    for (int i = 0; i < 4; ++i) {
        pthread_join(threads[i], NULL);
    }
    execl(argv[0], argv[0], argv[1], NULL);
}

static void load(const char *path) {
    static char cubin[1 << 20];
    FILE *file = fopen(path, "rb");
    LoadedModule loaded = {.module = 1, .size = fread(cubin, 1, sizeof cubin, file), .cubin = cubin};
    ResourceData resource = {.descriptor = &loaded};
    fclose(file);
    subscribed(NULL, DOMAIN_RESOURCE, RESOURCE_MODULE_LOADED, &resource);
}

int main(int argc, char **argv) {
    void *library = argc > 1 ? dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW) : NULL;
    int (*start)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
    if (!start || !start()) {
        return 0;
    }
    load(argv[1]);
    uint64_t in = (uintptr_t)device_memory[0] + 8, out = (uintptr_t)device_memory[1];
    char odd = 1;
    unsigned char strides[12] = {32, 0, 0, 0, 1};
    void *parameters[] = {&in, &odd, strides, &out};
    memset(device_memory, 5, sizeof device_memory);
    LaunchKernel one = {&columns, {{4, 1, 1}, {32, 1, 1}, 4356}, NULL, parameters, NULL};
    if (argc > 2) {
        misuse(argv, &one);
    }
    call("cuLaunchKernel", &one);

    unsigned char packed[32] = {0};
    size_t size = sizeof packed;
    memcpy(packed, &in, 8);
    memcpy(packed + 24, &out, 8);
    packed[8] = 2;
    void *extra[] = {(void *)PARAMETER_BUFFER, packed, (void *)PARAMETER_SIZE, &size, (void *)PARAMETER_END};
    one.parameters = NULL;
    one.extra = extra;
    one.function = &columns_kernel;
    device_memory[0][0] = 6;
    variable = 43;
    call("cuLaunchKernel", &one);

    LaunchAttribute cluster = {.id = ATTRIBUTE_CLUSTER, .value.cluster = {2, 1, 1}};
    LaunchConfig config = {{{8, 1, 1}, {64, 1, 1}, 0}, NULL, &cluster, 1};
    LaunchKernelEx many = {&config, &columns, parameters, NULL};
    call("cuLaunchKernelEx_ptsz", &many);
    config.stream = (Handle)STREAM_THAT_CAPTURES;
    call("cuLaunchKernelEx_ptsz", &many);  // becomes a node of a graph

    for (int i = 0; i < 3; ++i) {  // the last one comes first, and the middle one is a copy
        KernelNode kernel = {&columns, {{(unsigned)i + 1, 1, 1}, {32, 1, 1}, 0}, parameters, NULL, NULL, NULL};
        graph_nodes[i] = (GraphNode){i == 1 ? 1 : NODE_KERNEL, kernel, i == 2 ? NULL : &graph_nodes[i ? 2 : 1]};
    }
    Handle executable = &executable, *made = &executable;
    GraphInstantiate instantiate = {made, &graph_nodes};
    GraphLaunch launch = {executable, NULL};
    call("cuGraphLaunch", &launch);  // not known yet
    call("cuGraphInstantiateWithFlags", &instantiate);
    odd = 9;  // the graph has its own copy
    call("cuGraphLaunch", &launch);
    char later = 3;
    parameters[1] = &later;
    GraphSetKernel set = {executable, &graph_nodes[0], &graph_nodes[0].kernel};
    call("cuGraphExecKernelNodeSetParams_v2", &set);
    call("cuGraphLaunch", &launch);
    call("cuGraphNodeSetEnabled", &launch);
    call("cuGraphLaunch", &launch);
    one.shape.shared = 1 << 30;
    called("cuLaunchKernel", &one, 1);
    puts("fake: launched");
    return 0;
}
#endif
