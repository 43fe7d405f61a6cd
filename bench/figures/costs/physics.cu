// Physics and sparse algebra: staged products, neighbours, random numbers with a table, elements of a mesh.
#include "layout.cuh"

// A sparse matrix with 16 entries per row: products are staged, then summed by a thread per row.
extern "C" __global__ void sparse(float *out, const float *values, const int *columns, const float *x) {
    constexpr int kPitch = pitch(16);
    __shared__ float products[128 * kPitch];
    int t = threadIdx.x, base = blockIdx.x * 2048;
    for (int i = t; i < 2048; i += 128) products[i / 16 * kPitch + i % 16] = values[base + i] * x[columns[base + i]];
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < 16; ++i) sum += products[t * kPitch + i];
    out[blockIdx.x * 128 + t] = sum;
}

// Forces among the 64 particles of a cell, which have 8 numbers each; every thread starts with another one.
extern "C" __global__ void cells(float *out, const float *in) {
    __shared__ float p[8 * 64];
    int t = threadIdx.x, base = blockIdx.x * 512;
    auto place = [](int i, int part) { return kFixed ? part * 64 + i : i * 8 + part; };
    for (int i = t; i < 512; i += 64) p[place(i / 8, i % 8)] = in[base + i];
    __syncthreads();
    float x = p[place(t, 0)], y = p[place(t, 1)], z = p[place(t, 2)], fx = 0, fy = 0, fz = 0;
#pragma unroll 4
    for (int j = 1; j < 64; ++j) {
        int other = (t + j) & 63;
        float dx = p[place(other, 0)] - x, dy = p[place(other, 1)] - y, dz = p[place(other, 2)] - z;
        float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f), force = p[place(other, 6)] * inverse * inverse * inverse;
        fx += force * dx;
        fy += force * dy;
        fz += force * dz;
    }
    out[(blockIdx.x * 3 + 0) * 64 + t] = fx;
    out[(blockIdx.x * 3 + 1) * 64 + t] = fy;
    out[(blockIdx.x * 3 + 2) * 64 + t] = fz;
}

// Random numbers, shuffled by a table of 16 per thread.
extern "C" __global__ void shuffled(unsigned *out, const unsigned *seeds, int count) {
    __shared__ unsigned table[16 * 128];
    int t = threadIdx.x;
    unsigned state = seeds[blockIdx.x * 128 + t] | 1, sum = 0;
    auto place = [t](unsigned i) { return kFixed ? i * 128 + t : t * 16 + i; };
    for (int i = 0; i < 16; ++i) table[place(i)] = state = state * 1664525u + 1013904223u;
    unsigned last = state;
    for (int i = 0; i < count; ++i) {
        unsigned which = last >> 28;
        last = table[place(which)];
        table[place(which)] = state = state * 1664525u + 1013904223u;
        sum ^= last + i;
    }
    out[blockIdx.x * 128 + t] = sum;
}

// The stiffness of elements with 8 nodes, times their displacements, in double precision; an element per thread.
extern "C" __global__ void elements(double *out, const double *in, const double *stiffness) {
    constexpr int kPitch = pitch(8);
    __shared__ double u[64 * kPitch], k[64];
    int t = threadIdx.x, base = blockIdx.x * 512;
    for (int i = t; i < 512; i += 64) u[i / 8 * kPitch + i % 8] = in[base + i];
    k[t] = stiffness[t];
    __syncthreads();
    double f[8] = {};
    for (int j = 0; j < 8; ++j)
        for (int i = 0; i < 8; ++i) f[i] += k[i * 8 + j] * u[t * kPitch + j];
    __syncthreads();
    for (int i = 0; i < 8; ++i) u[t * kPitch + i] = f[i];
    __syncthreads();
    for (int i = t; i < 512; i += 64) out[base + i] = u[i / 8 * kPitch + i % 8];
}

// Collisions on a lattice of 16 speeds, which a node keeps next to each other.
extern "C" __global__ void lattice(float *out, const float *in) {
    constexpr int kPitch = pitch(16);
    __shared__ float f[64 * kPitch];
    int t = threadIdx.x, base = blockIdx.x * 1024;
    for (int i = t; i < 1024; i += 64) f[i / 16 * kPitch + i % 16] = in[base + i];
    __syncthreads();
    float *mine = f + t * kPitch, density = 0, flow = 0;
    for (int q = 0; q < 16; ++q) {
        density += mine[q];
        flow += mine[q] * ((q & 1) - 0.5f);
    }
#pragma unroll 1
    for (int q = 0; q < 16; ++q) mine[q] += 0.6f * (density * 0.0625f + 0.1f * flow * ((q & 1) - 0.5f) - mine[q]);
    __syncthreads();
    for (int i = t; i < 1024; i += 64) out[base + i] = f[i / 16 * kPitch + i % 16];
}
