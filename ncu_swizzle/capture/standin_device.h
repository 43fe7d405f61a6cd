// The runtime's functions on the device, streams, events and errors: of standin.c, which includes this.

API int cudaGetLastError(void) {
    int error = last_error;
    last_error = OK;
    return error;
}
API int cudaPeekAtLastError(void) { return last_error; }
API const char *cudaGetErrorString(int error) { return error ? "an error of the stand-in for CUDA's runtime" : "no error"; }
API const char *cudaGetErrorName(int error) { return error ? "cudaErrorOfTheStandIn" : "cudaSuccess"; }

API int cudaGetDeviceCount(int *count) { return start(), *count = 1, OK; }
API int cudaGetDevice(int *device) { return *device = 0, OK; }
API int cudaSetDevice(int device) { return start(), device ? answered(101) : OK; }
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
API int cudaFuncSetAttribute(const void *function, int attribute, int value) {
    return (void)attribute, (void)value, function_of(function) ? OK : answered(INVALID_FUNCTION);
}
// cudaFuncAttributes: three sizes, then threads, registers, and the versions that CUB asks for. What is not known is zero.
API int cudaFuncGetAttributes(unsigned char *out, const void *function) {
    int major = 0, minor = 0;
    if (!function_of(function)) {
        return answered(INVALID_FUNCTION);
    }
    cudaDeviceGetAttribute(&major, 75, 0);
    cudaDeviceGetAttribute(&minor, 76, 0);
    int known[4] = {1024, 0, 10 * major + minor, 10 * major + minor};
    memset(out, 0, 52);
    memcpy(out + 24, known, sizeof known);
    return OK;
}
API int cudaFuncSetCacheConfig(const void *function, int config) { return (void)function, (void)config, OK; }

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

#if RUNTIME_VERSION >= 13000
// The fields of cudaDeviceProp of CUDA 13; those that are not listed are zero.
API int cudaGetDeviceProperties(unsigned char *out, int device) {
    size_t memory = DEVICE_MEMORY;
    (void)device;
    start();
    memset(out, 0, DEVICE_PROPERTIES_BYTES);
    snprintf((char *)out, 256, "%s", DEVICE_NAME);
    memcpy(out + 288, &memory, sizeof memory);
    for (size_t i = 0; i < sizeof DEVICE_FIELDS / sizeof *DEVICE_FIELDS; ++i) {
        int value = 0;
        cudaDeviceGetAttribute(&value, DEVICE_FIELDS[i].number, 0);
        uint64_t wide = (uint64_t)value;
        memcpy(out + DEVICE_FIELDS[i].offset, &wide, (size_t)DEVICE_FIELDS[i].bytes);
    }
    return OK;
}
#endif

// ------------------------------------------------------------------------------------------------ streams and events

static int handle(void **out) {
    start();
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
