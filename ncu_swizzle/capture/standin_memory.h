// The runtime's functions on memory: of standin.c, which includes this.

static int made(void **out, size_t size, int shared) {
    LOCKED;
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
    size_t wide = width > DEVICE_MEMORY ? width : (width + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, whole;
    if (!pitch || __builtin_mul_overflow(wide, height, &whole)) {
        return answered(pitch ? OUT_OF_MEMORY : INVALID_VALUE);
    }
    *pitch = wide;
    return made(out, whole, 0);
}

API int cudaFree(void *pointer) {
    LOCKED;
    return !pointer || release(pointer) ? OK : answered(INVALID_VALUE);
}
API int cudaFreeHost(void *pointer) { return cudaFree(pointer); }
API int cudaFreeAsync(void *pointer, void *stream) { return (void)stream, cudaFree(pointer); }

enum { LAST_DIRECTION = 4 };  // of cudaMemcpyKind

// Ends a program whose kernels are executed if the host would read what is not known.
static void refuse_unknown(const void *to, const void *from, size_t size) {
    char text[400];
    const Allocation *source = allocation_at(from), *target = allocation_at(to);
    if (!executing || !size || !source || source->shared || (target && !target->shared)) {
        return;
    }
    size_t first = (uintptr_t)from - source->start;
    for (int i = 0; i < source->spans; ++i) {
        if (source->known[i].from <= first && first + size <= source->known[i].to) {
            return;
        }
    }
    snprintf(text, sizeof text, "%zu bytes at %p: %s", size, from,
             source->group && *unknown_why ? unknown_why : "nothing wrote some of them");
    end_with("unknown", text);
}

API int cudaMemcpy(void *to, const void *from, size_t size, int kind) {
    LOCKED;
    if (kind < 0 || kind > LAST_DIRECTION) {
        return answered(INVALID_DIRECTION);
    }
    if (is_there(to, size) && is_there(from, size)) {
        refuse_unknown(to, from, size);
    }
    return copy(to, from, size) ? OK : answered(INVALID_VALUE);
}
API int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream) {
    return (void)stream, cudaMemcpy(to, from, size, kind);
}

// Returns the bytes from the first row's start to the last one's end; 0 if they are more than there are addresses.
static size_t rectangle(size_t pitch, size_t width, size_t height) {
    size_t rows, whole;
    return __builtin_mul_overflow(pitch, height - 1, &rows) || __builtin_add_overflow(rows, width, &whole) ? 0 : whole;
}

API int cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind) {
    LOCKED;
    if (kind < 0 || kind > LAST_DIRECTION) {
        return answered(INVALID_DIRECTION);
    }
    if (!width || !height) {
        return OK;
    }
    if (width > to_pitch || width > from_pitch) {
        return answered(INVALID_PITCH);
    }
    size_t written = rectangle(to_pitch, width, height), read = rectangle(from_pitch, width, height);
    if (!written || !read || !is_there(to, written) || !is_there(from, read)) {
        return answered(INVALID_VALUE);
    }
    for (size_t row = 0; row < height; ++row) {
        refuse_unknown((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width);
        copy((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width);
    }
    return OK;
}
API int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                          int kind, void *stream) {
    return (void)stream, cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind);
}
API int cudaMemset(void *to, int value, size_t size) {
    LOCKED;
    return fill(to, value, size) ? OK : answered(INVALID_VALUE);
}
API int cudaMemsetAsync(void *to, int value, size_t size, void *stream) { return (void)stream, cudaMemset(to, value, size); }

// Returns CUDA's error for a copy between a variable and memory; OK if there is none.
static int symbol_error(const Variable *variable, const void *memory, size_t size, size_t offset) {
    if (!variable) {
        return INVALID_SYMBOL;
    }
    int within = offset <= variable->size && size <= variable->size - offset;
    return within && is_there(memory, size) ? OK : INVALID_VALUE;
}

API int cudaMemcpyToSymbol(const void *symbol, const void *from, size_t size, size_t offset, int kind) {
    LOCKED;
    Variable *variable = variable_of(symbol);
    int error = symbol_error(variable, from, size, offset);
    (void)kind;
    if (error) {
        return answered(error);
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
    LOCKED;
    Variable *variable = variable_of(symbol);
    int error = symbol_error(variable, to, size, offset);
    (void)kind;
    if (error) {
        return answered(error);
    }
    if (executing && variable->state == UNKNOWN) {
        end_with("unknown", variable->name);
    }
    memcpy(to, variable->content + offset, size);
    Allocation *target = allocation_at(to);
    if (target) {
        forget(target, (uintptr_t)to - target->start, (uintptr_t)to - target->start + size);
    }
    return OK;
}
API int cudaGetSymbolSize(size_t *size, const void *symbol) {
    LOCKED;
    Variable *variable = variable_of(symbol);
    *size = variable ? variable->size : 0;
    return variable ? OK : answered(INVALID_SYMBOL);
}

API int cudaMemGetInfo(size_t *unused, size_t *total) {
    LOCKED;
    *total = DEVICE_MEMORY;
    *unused = allocated < DEVICE_MEMORY ? DEVICE_MEMORY - allocated : 0;
    return OK;
}
