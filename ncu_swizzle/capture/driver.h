// The part of CUDA's driver API and of CUPTI that the capture uses, declared here: a user's machine may have neither's
// headers. Handles are opaque, statuses are ints, and 0 is success. tests/gpu holds the layouts against the real ones.
#ifndef NCU_SWIZZLE_DRIVER_H
#define NCU_SWIZZLE_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef void *Handle;
typedef uint64_t DevicePointer;

enum { ENTER = 0, EXIT = 1 };
enum { DOMAIN_DRIVER = 1, DOMAIN_RESOURCE = 3 };
enum { RESOURCE_MODULE_LOADED = 6 };
enum { PARAMETER_END = 0, PARAMETER_BUFFER = 1, PARAMETER_SIZE = 2 };
enum { ATTRIBUTE_CLUSTER = 4 };
enum { NODE_KERNEL = 0, NODE_GRAPH = 4, NODE_EMPTY = 5, NODE_CONDITIONAL = 13 };
enum { CAPTURING = 1, CAPTURE_RELAXED = 2 };
enum { DEVICE_SM_COUNT = 16, DEVICE_MAJOR = 75, DEVICE_MINOR = 76 };
// Of a function: threads per block, static shared, constant and local bytes, registers, architecture.
static const int FUNCTION_ATTRIBUTES[] = {0, 1, 2, 3, 4, 6};

typedef struct {
    int site;
    const char *function;
    const void *parameters;
    void *returned;
    const char *symbol;
    Handle context;
    uint32_t context_id;
    uint64_t *correlation;
    uint32_t correlation_id;
} CallbackData;

typedef struct {
    Handle context;
    void *handle;
    void *descriptor;
} ResourceData;

typedef struct {
    uint32_t module;
    size_t size;
    const char *cubin;
} LoadedModule;

typedef struct {
    unsigned int grid[3], block[3], shared;
} Shape;

typedef struct {
    Handle function;
    Shape shape;
    Handle stream;
    void **parameters, **extra;  // a cooperative launch has no `extra`
} LaunchKernel;

typedef struct {
    int id;
    int padding;
    union {
        char bytes[64];
        unsigned int cluster[3];
    } value;
} LaunchAttribute;

typedef struct {
    Shape shape;
    Handle stream;
    LaunchAttribute *attributes;
    unsigned int count;
} LaunchConfig;

typedef struct {
    const LaunchConfig *config;
    Handle function;
    void **parameters, **extra;
} LaunchKernelEx;

typedef struct {
    Handle function;
    Shape shape;
    void **parameters, **extra;
    Handle kernel, context;
} KernelNode;

typedef struct {
    Handle executable, stream;
} GraphLaunch;

typedef struct {
    Handle *executable;
    Handle graph;
} GraphInstantiate;

typedef struct {
    Handle executable, graph;
} GraphUpdate;

typedef struct {
    Handle executable, node;
    const KernelNode *parameters;
} GraphSetKernel;

// One line each: the name in libcuda, and what it is called with.
#define DRIVER_FUNCTIONS(USE)                                                             \
    USE(cuDriverGetVersion, (int *))                                                      \
    USE(cuGetErrorName, (int, const char **))                                             \
    USE(cuCtxGetDevice, (int *))                                                          \
    USE(cuDeviceGetName, (char *, int, int))                                              \
    USE(cuDeviceGetAttribute, (int *, int, int))                                          \
    USE(cuFuncGetModule, (Handle *, Handle))                                              \
    USE(cuFuncGetAttribute, (int *, int, Handle))                                         \
    USE(cuFuncGetName, (const char **, Handle))                                           \
    USE(cuFuncGetParamInfo, (Handle, size_t, size_t *, size_t *))                         \
    USE(cuKernelGetFunction, (Handle *, Handle))                                          \
    USE(cuModuleGetFunctionCount, (unsigned int *, Handle))                               \
    USE(cuModuleEnumerateFunctions, (Handle *, unsigned int, Handle))                     \
    USE(cuModuleGetGlobal_v2, (DevicePointer *, size_t *, Handle, const char *))          \
    USE(cuMemGetAddressRange_v2, (DevicePointer *, size_t *, DevicePointer))              \
    USE(cuMemcpyDtoH_v2, (void *, DevicePointer, size_t))                                 \
    USE(cuCtxSynchronize, (void))                                                         \
    USE(cuStreamIsCapturing, (Handle, int *))                                             \
    USE(cuThreadExchangeStreamCaptureMode, (int *))                                       \
    USE(cuGraphGetNodes, (Handle, Handle *, size_t *))                                    \
    USE(cuGraphNodeGetType, (Handle, int *))                                              \
    USE(cuGraphNodeGetDependencies_v2, (Handle, Handle *, void *, size_t *))              \
    USE(cuGraphKernelNodeGetParams_v2, (Handle, KernelNode *))                            \
    USE(cuGraphKernelNodeGetAttribute, (Handle, int, void *))                             \
    USE(cuGraphChildGraphNodeGetGraph, (Handle, Handle *))

#define CUPTI_FUNCTIONS(USE)                                                              \
    USE(cuptiGetVersion, (uint32_t *))                                                    \
    USE(cuptiSubscribe, (Handle *, void (*)(void *, int, uint32_t, const void *), void *)) \
    USE(cuptiEnableCallback, (uint32_t, Handle, int, uint32_t))                           \
    USE(cuptiGetCallbackName, (int, uint32_t, const char **))

#endif
