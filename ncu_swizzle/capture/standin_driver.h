// Functions of CUDA's driver that programs fetch through the runtime, or are linked with: of standin.c, which includes
// this. Tensor maps are encoded as emulate/tensor_map.py does, which says where the fields were read off; what the driver
// would refuse is encoded, too, and named when the launch is linted.

enum { MAP_BYTES = 128, MOST_RANK = 5, UNKNOWN_CODE = 15, ENTRY_FOUND = 0 };

// By CUtensorMapDataType: the code in the map, and bits of an element.
static const struct {
    unsigned code, bits;
} MAP_TYPES[] = {{0, 8},   {1, 16},  {2, 32}, {3, 32},       {4, 64},       {5, 64}, {6, 16}, {7, 32},
                 {9, 64}, {10, 16}, {8, 32}, {7 | 512, 32}, {8 | 512, 32}, {11, 4}, {12, 4}, {13, 6}};

static void set_field(unsigned char *map, int at, uint64_t value, int bytes) { memcpy(map + at, &value, (size_t)bytes); }

static void encode_shape(unsigned char *map, unsigned type, unsigned rank, const void *address, const uint64_t *sizes,
                         const uint64_t *strides, const uint32_t *steps, unsigned mode) {
    unsigned code = type < sizeof MAP_TYPES / sizeof *MAP_TYPES ? MAP_TYPES[type].code : UNKNOWN_CODE;
    unsigned packed = 0;
    memset(map, 0, MAP_BYTES);
    set_field(map, 0, (uintptr_t)address, 8);
    set_field(map, 8, mode | (rank - 1) << 4 | code << 7, 4);
    for (unsigned axis = 0; axis < rank; ++axis) {
        set_field(map, 32 + 4 * (int)axis, sizes[axis] - 1, 4);
        packed |= (steps[axis] - 1) << 3 * axis;
        if (axis + 1 < rank) {  // a stride counts 16 bytes, 32 bits in its word and 4 in a byte that two share
            set_field(map, 12 + 4 * (int)axis, strides[axis] >> 4, 4);
            map[28 + axis / 2] |= (unsigned char)(strides[axis] >> 36 << 4 * (axis % 2));
        }
    }
    set_field(map, 52, packed, 3);
}

API int cuTensorMapEncodeTiled(unsigned char *map, unsigned type, unsigned rank, void *address, const uint64_t *sizes,
                               const uint64_t *strides, const uint32_t *box, const uint32_t *steps, unsigned interleave,
                               unsigned swizzle, unsigned promotion, unsigned fill) {
    static const unsigned PATTERNS[] = {16, 256, 512, 1024};
    unsigned plain = swizzle < 3 ? swizzle : 3;
    if (!map || !rank || rank > MOST_RANK) {
        return INVALID_VALUE;
    }
    encode_shape(map, type, rank, address, sizes, strides, steps,
                 interleave << 11 | plain << 13 | fill << 15 | promotion << 17 | (swizzle - plain) << 19);
    uint64_t copied = type < sizeof MAP_TYPES / sizeof *MAP_TYPES ? MAP_TYPES[type].bits : 0;
    for (unsigned axis = 0; axis < rank; ++axis) {
        map[55 + axis] = (unsigned char)(box[axis] - 1);
        copied *= box[axis] / steps[axis];  // the driver rounds down
    }
    set_field(map, 64, copied / 8, 4);
    set_field(map, 72, PATTERNS[plain], 4);
    return OK;
}

static const struct {
    const char *name;
    void *function;
} DRIVER[] = {{"cuTensorMapEncodeTiled", (void *)cuTensorMapEncodeTiled}};

API int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version, uint64_t flags, int *found) {
    char problem[LONGEST_NAME];
    (void)version, (void)flags;
    for (size_t i = 0; i < sizeof DRIVER / sizeof *DRIVER; ++i) {
        if (!strcmp(name, DRIVER[i].name)) {
            *function = DRIVER[i].function;
            return found ? *found = ENTRY_FOUND, OK : OK;
        }
    }
    snprintf(problem, sizeof problem, "%.200s", name);
    return give_up(problem);
}
API int cudaGetDriverEntryPoint(const char *name, void **function, uint64_t flags, int *found) {
    return cudaGetDriverEntryPointByVersion(name, function, 0, flags, found);
}

API int cuGetErrorString(int error, const char **text) { return *text = cudaGetErrorString(error), OK; }
API int cuGetErrorName(int error, const char **text) { return *text = cudaGetErrorName(error), OK; }
API int cuDriverGetVersion(int *version) { return *version = RUNTIME_VERSION, OK; }
API int cuInit(unsigned flags) { return (void)flags, OK; }
