// The runtime's functions on memory: of standin.c, which includes this.

static int made(void **out, size_t size, int shared) {
    start();
    if (!out) {
        return answered(INVALID_VALUE);
    }
    *out = size ? allocate(size, shared) : NULL;
    return *out || !size ? OK : answered(OUT_OF_MEMORY);
}

API int cudaMalloc(void **out, size_t size) { return made(out, size, 0); }
API int cudaMallocManaged(void **out, size_t size, unsigned flags) { return (void)flags, made(out, size, 1); }
API int cudaMallocHost(void **out, size_t size) { return made(out, size, 1); }
API int cudaHostAlloc(void **out, size_t size, unsigned flags) { return (void)flags, made(out, size, 1); }
API int cudaMallocAsync(void **out, size_t size, void *stream) { return (void)stream, made(out, size, 0); }
API int cudaHostGetDevicePointer(void **out, void *host, unsigned flags) { return (void)flags, *out = host, OK; }
API int cudaMallocPitch(void **out, size_t *pitch, size_t width, size_t height) {
    *pitch = (width + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return made(out, *pitch * height, 0);
}

API int cudaFree(void *pointer) { return !pointer || release(pointer) ? OK : answered(INVALID_VALUE); }
API int cudaFreeHost(void *pointer) { return cudaFree(pointer); }
API int cudaFreeAsync(void *pointer, void *stream) { return (void)stream, cudaFree(pointer); }

API int cudaMemcpy(void *to, const void *from, size_t size, int kind) { return (void)kind, copy(to, from, size), OK; }
API int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream) {
    return (void)kind, (void)stream, copy(to, from, size), OK;
}
API int cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind) {
    (void)kind;
    for (size_t row = 0; row < height; ++row) {
        copy((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width);
    }
    return OK;
}
API int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                          int kind, void *stream) {
    return (void)stream, cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind);
}
API int cudaMemset(void *to, int value, size_t size) { return fill(to, value, size), OK; }
API int cudaMemsetAsync(void *to, int value, size_t size, void *stream) { return (void)stream, fill(to, value, size), OK; }

API int cudaMemcpyToSymbol(const void *symbol, const void *from, size_t size, size_t offset, int kind) {
    Variable *variable = variable_of(symbol);
    (void)kind;
    if (!variable || offset > variable->size || size > variable->size - offset) {
        return answered(INVALID_SYMBOL);
    }
    Allocation *source = allocation_at(from);
    memcpy(variable->content + offset, from, size);
    if (source && !source->shared) {
        variable->state = UNKNOWN;  // what of the source is known is not followed here
    } else if (size == variable->size) {
        variable->state = KNOWN;
    } else if (variable->state == INITIAL) {
        variable->state = UNKNOWN;
    }
    return OK;
}
API int cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t size, size_t offset, int kind, void *stream) {
    return (void)stream, cudaMemcpyToSymbol(symbol, from, size, offset, kind);
}
API int cudaMemcpyFromSymbol(void *to, const void *symbol, size_t size, size_t offset, int kind) {
    Variable *variable = variable_of(symbol);
    (void)kind;
    if (!variable || offset > variable->size || size > variable->size - offset) {
        return answered(INVALID_SYMBOL);
    }
    memcpy(to, variable->content + offset, size);
    Allocation *target = allocation_at(to);
    if (target) {
        forget(target, (uintptr_t)to - target->start, (uintptr_t)to - target->start + size);
    }
    return OK;
}
API int cudaGetSymbolSize(size_t *size, const void *symbol) {
    Variable *variable = variable_of(symbol);
    *size = variable ? variable->size : 0;
    return variable ? OK : answered(INVALID_SYMBOL);
}

API int cudaMemGetInfo(size_t *unused, size_t *total) {
    *total = DEVICE_MEMORY;
    *unused = allocated < DEVICE_MEMORY ? DEVICE_MEMORY - allocated : 0;
    return OK;
}
