// Kernels whose accesses to global and local memory have something to say about: see tests/gate/test_memory.py.

// A transpose that writes columns.
extern "C" __global__ void turn(const float *x, float *y, int n) {
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        y[column * n + row + i] = x[(row + i) * n + column];
}

// An array of structures, and a store that begins inside of a sector.
struct Point {
    float x, y, z;
};
extern "C" __global__ void members(const Point *p, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i + 1] = p[i].x + p[i].z;
}

// Each thread reads a row of its own, keeps it in an array that it indexes, and parts from its neighbour.
extern "C" __global__ void own_rows(const float *x, float *y, int k) {
    float a[16];
    for (int i = 0; i < 16; i++) a[i] = x[threadIdx.x * 16 + i];
    float s = 0;
    for (int i = 0; i < k; i++) s += a[(i * 7 + k) % 16];
    if (threadIdx.x & 1) s = s * s + x[0]; else s = sqrtf(s);
    y[threadIdx.x] = s;
}

// Its addresses are data.
extern "C" __global__ void gathered(const int *at, const float *x, float *y) {
    y[threadIdx.x] = x[at[threadIdx.x]];
}
