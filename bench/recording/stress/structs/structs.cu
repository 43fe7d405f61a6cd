// Pointers through structures: rows of records whose size is no power of two.
struct Record {
    unsigned id;
    unsigned short low, high;
    unsigned value[3];
};

struct Table {
    Record rows[64];
    unsigned padding[3];
    __device__ Record *last() { return rows + 63; }
};

extern "C" __global__ void structs(const unsigned *in, unsigned *out) {
    __shared__ Table tables[2];
    const int t = threadIdx.x;
    Table *table = &tables[t / 64];
    Record *own = table->rows + t % 64;
    own->id = in[t];
    own->low = t;
    own->high = 2 * t;
    for (unsigned i = 0; i < 3; ++i) {
        own->value[i] = in[t] + i;
    }
    __syncthreads();
    const Record *other = table->last() - t % 64;
    unsigned x = other->id + other->low + other->high;
    for (const unsigned *p = other->value; p != other->value + 3; ++p) {
        x = 3 * x + *p;
    }
    out[blockIdx.x * 128 + t] = x;
}
