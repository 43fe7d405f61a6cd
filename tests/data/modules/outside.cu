// What a module takes from outside: functions of the driver, constants that the host fills, functions by address.
#include <cassert>
#include <cstdio>

__constant__ int given[2] = {3, 0};
__constant__ int filled;

extern "C" __global__ void speaks(int *out, int n) {
    __shared__ int tile[256];
    if (threadIdx.x == 0)
        printf("%d elements\n", n);
    tile[threadIdx.x * 2] = n;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}

extern "C" __global__ void allocates(int *out, int n) {
    __shared__ int tile[256];
    int *own = static_cast<int *>(malloc(n * sizeof(int)));
    tile[threadIdx.x] = own == nullptr;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x ^ 1];
    if (own != nullptr)
        tile[threadIdx.x * 2] = 1;
}

extern "C" __global__ void asserts(int *out, const int *in) {
    __shared__ int tile[256];
    int value = in[threadIdx.x];
    assert(value > 0);
    if (value == 100)
        __trap();
    tile[threadIdx.x * 2] = value;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}

extern "C" __global__ void repeats(int *out) {
    __shared__ int tile[256];
    for (int i = 0; i < given[0]; ++i)
        tile[threadIdx.x * 2 + i] = i;
    __syncthreads();
    for (int i = 0; i < filled; ++i)
        out[threadIdx.x] += tile[threadIdx.x + i];
}

struct Shape {
    __device__ virtual int area(volatile int *tile) const { return tile[threadIdx.x]; }
};

struct Round : Shape {
    __device__ int area(volatile int *tile) const override { return tile[threadIdx.x * 2]; }
};

extern "C" __global__ void dispatches(int *out, Shape *const *shapes) {
    __shared__ int tile[256];
    tile[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = shapes[threadIdx.x]->area(tile);
    tile[threadIdx.x * 2] = 0;
}

extern "C" __global__ void constructs(Shape **shapes) {
    shapes[0] = new Shape;
    shapes[1] = new Round;
}
