// The runtime's functions on the device, streams, events and errors: of standin.c, which includes this.

API int cudaGetLastError(void) {
    int error = last_error;
    last_error = OK;
    return error;
}
API int cudaPeekAtLastError(void) { return last_error; }

static const struct {
    int number;
    const char *name, *text;
} ERROR_TEXTS[] = {
#define DESCRIBED(error, number, name, text) {number, name, text},
    ERRORS(DESCRIBED)};
static const char *const UNKNOWN_ERROR = "unrecognized error code";

API const char *cudaGetErrorName(int error) {
    for (size_t i = 0; i < sizeof ERROR_TEXTS / sizeof *ERROR_TEXTS; ++i) {
        if (ERROR_TEXTS[i].number == error) {
            return ERROR_TEXTS[i].name;
        }
    }
    return UNKNOWN_ERROR;
}
API const char *cudaGetErrorString(int error) {
    for (size_t i = 0; i < sizeof ERROR_TEXTS / sizeof *ERROR_TEXTS; ++i) {
        if (ERROR_TEXTS[i].number == error) {
            return ERROR_TEXTS[i].text;
        }
    }
    return UNKNOWN_ERROR;
}

API int cudaGetDeviceCount(int *count) { return *count = 1, OK; }
API int cudaGetDevice(int *device) { return *device = 0, OK; }
API int cudaSetDevice(int device) { return device ? answered(INVALID_DEVICE) : OK; }
API int cudaSetDeviceFlags(unsigned flags) { return (void)flags, OK; }
API int cudaDeviceSynchronize(void) { return OK; }
API int cudaDeviceReset(void) { return OK; }
API int cudaDeviceSetCacheConfig(int config) { return (void)config, OK; }
API int cudaDeviceSetLimit(int limit, size_t value) { return (void)limit, (void)value, OK; }
API int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { return *least = 0, *greatest = -5, OK; }
API int cudaRuntimeGetVersion(int *version) { return *version = RUNTIME_VERSION, OK; }
API int cudaDriverGetVersion(int *version) { return *version = RUNTIME_VERSION, OK; }
API int cudaProfilerStart(void) { return OK; }
API int cudaProfilerStop(void) { return OK; }
API int cudaDeviceGetAttribute(int *value, int number, int device) {
    char problem[100];
    (void)device;
    for (size_t i = 0; i < sizeof DEVICE_VALUES / sizeof *DEVICE_VALUES; ++i) {
        if (DEVICE_VALUES[i].number == number) {
            return *value = DEVICE_VALUES[i].value, OK;
        }
    }
    snprintf(problem, sizeof problem, "cudaDeviceGetAttribute of attribute %d", number);
    return give_up(problem);
}

static int device_value(int number) {
    int value = 0;
    return cudaDeviceGetAttribute(&value, number, 0), value;
}

enum { MOST_DYNAMIC_SHARED = 8, LARGE_CLUSTERS = 14 };  // of cudaFuncAttribute

API int cudaFuncSetAttribute(const void *host, int attribute, int value) {
    LOCKED;
    Function *function = function_of(host);
    if (!function) {
        return answered(INVALID_FUNCTION);
    }
    if (attribute == MOST_DYNAMIC_SHARED) {
        if (value < 0 || value + function->static_shared > device_value(97)) {
            return answered(INVALID_VALUE);
        }
        function->dynamic_shared = value;
    } else if (attribute == LARGE_CLUSTERS) {
        function->large_clusters = value;
    }
    return OK;
}

// Registers are given to a warp in units of 256; each of an SM's four sub-cores has a quarter of them, for its own warps
// (CUDA's occupancy calculator).
static int warps_by_registers(const Function *function) {
    int per_warp = (function->registers * 32 + 255) / 256 * 256;
    return per_warp ? 4 * (device_value(82) / 4 / per_warp) : device_value(39) / 32;
}

static int most_threads(const Function *function) {
    int threads = device_value(1), fitting = 32 * warps_by_registers(function);
    threads = function->most_threads && function->most_threads < threads ? function->most_threads : threads;
    return fitting < threads ? fitting : threads;
}

// cudaFuncAttributes: static shared memory, then threads, registers, the versions that CUB asks for, and the most dynamic
// shared memory. What is not known is zero.
API int cudaFuncGetAttributes(unsigned char *out, const void *host) {
    LOCKED;
    Function *function = function_of(host);
    if (!function) {
        return answered(INVALID_FUNCTION);
    }
    int version = 10 * device_value(75) + device_value(76);
    int known[6] = {most_threads(function), function->registers, version, version, 0, function->dynamic_shared};
    memset(out, 0, 52);
    memcpy(out, &function->static_shared, sizeof function->static_shared);
    memcpy(out + 24, known, sizeof known);
    return OK;
}

static int smaller(int one, int other) { return one < other ? one : other; }

API int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *host, int threads, size_t dynamic,
                                                               unsigned flags) {
    LOCKED;
    Function *function = function_of(host);
    int warps = (threads + 31) / 32;
    (void)flags;
    if (!function || threads <= 0) {
        return answered(function ? INVALID_VALUE : INVALID_FUNCTION);
    }
    if (threads > device_value(1) || dynamic > (size_t)function->dynamic_shared) {
        return *blocks = 0, OK;
    }
    int shared = (function->static_shared + (int)dynamic + device_value(111) + 127) / 128 * 128;  // in units of 128 bytes
    *blocks = smaller(smaller(device_value(106), device_value(39) / 32 / warps),
                      smaller(warps_by_registers(function) / warps, device_value(81) / shared));
    return OK;
}
API int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *host, int threads, size_t dynamic) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host, threads, dynamic, 0);
}

enum { ATTRIBUTE_COOPERATIVE = 2, ATTRIBUTE_CLUSTER = 4 };  // of a launch

// Returns the value of a launch's attribute; NULL if it has none.
static const unsigned *attribute_of(const Config *config, int id) {
    const unsigned *value = NULL;
    for (unsigned i = 0; i < config->count; ++i) {
        value = config->attributes[i].id == id ? config->attributes[i].value : value;
    }
    return value;
}

static Sizes cluster_of(const Config *config) {
    const unsigned *size = attribute_of(config, ATTRIBUTE_CLUSTER);
    return size ? (Sizes){size[0], size[1], size[2]} : (Sizes){0, 0, 0};
}

// As many as all multiprocessors have room for. A cluster stays within a GPC, and how many multiprocessors each has is not
// known: a GPU may hold fewer.
API int cudaOccupancyMaxActiveClusters(int *clusters, const void *function, const Config *config) {
    Sizes cluster = cluster_of(config), block = config->block;
    int blocks = 0, size = (int)((cluster.x ? cluster.x : 1) * (cluster.y ? cluster.y : 1) * (cluster.z ? cluster.z : 1));
    int answer = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, (int)(block.x * block.y * block.z),
                                                               config->shared);
    *clusters = blocks * device_value(16) / size;
    return answer;
}
API int cudaFuncSetCacheConfig(const void *function, int config) { return (void)function, (void)config, OK; }

#if RUNTIME_VERSION >= 13000
// The fields of cudaDeviceProp of CUDA 13; those that are not listed are zero.
API int cudaGetDeviceProperties(unsigned char *out, int device) {
    size_t memory = DEVICE_MEMORY;
    (void)device;
    memset(out, 0, DEVICE_PROPERTIES_BYTES);
    snprintf((char *)out, 256, "%s", DEVICE_NAME);
    memcpy(out + 288, &memory, sizeof memory);
    for (size_t i = 0; i < sizeof DEVICE_FIELDS / sizeof *DEVICE_FIELDS; ++i) {
        uint64_t wide = (uint64_t)device_value(DEVICE_FIELDS[i].number);
        memcpy(out + DEVICE_FIELDS[i].offset, &wide, (size_t)DEVICE_FIELDS[i].bytes);
    }
    return OK;
}
#endif

// ------------------------------------------------------------------------------------------------ streams and events

static int handle(void **out) {
    *out = calloc(1, 1);
    return *out ? OK : answered(OUT_OF_MEMORY);
}

API int cudaStreamCreate(void **out) { return handle(out); }
API int cudaStreamCreateWithFlags(void **out, unsigned flags) { return (void)flags, handle(out); }
API int cudaStreamCreateWithPriority(void **out, unsigned flags, int priority) {
    return (void)flags, (void)priority, handle(out);
}
API int cudaStreamDestroy(void *stream) { return free(stream), OK; }
API int cudaStreamSynchronize(void *stream) { return (void)stream, OK; }
API int cudaStreamQuery(void *stream) { return (void)stream, OK; }
API int cudaStreamWaitEvent(void *stream, void *event, unsigned flags) {
    return (void)stream, (void)event, (void)flags, OK;
}
API int cudaStreamIsCapturing(void *stream, int *status) { return (void)stream, *status = 0, OK; }
API int cudaEventCreate(void **out) { return handle(out); }
API int cudaEventCreateWithFlags(void **out, unsigned flags) { return (void)flags, handle(out); }
API int cudaEventDestroy(void *event) { return free(event), OK; }
API int cudaEventRecord(void *event, void *stream) { return (void)event, (void)stream, OK; }
API int cudaEventRecordWithFlags(void *event, void *stream, unsigned flags) {
    return (void)event, (void)stream, (void)flags, OK;
}
API int cudaEventSynchronize(void *event) { return (void)event, OK; }
API int cudaEventQuery(void *event) { return (void)event, OK; }
// No kernel ran, so there is no time: a millisecond, which can be divided by.
API int cudaEventElapsedTime(float *milliseconds, void *from, void *to) {
    return (void)from, (void)to, *milliseconds = 1.0f, OK;
}
API int cudaEventElapsedTime_v2(float *milliseconds, void *from, void *to) {
    return cudaEventElapsedTime(milliseconds, from, to);
}
