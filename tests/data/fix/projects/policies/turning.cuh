#pragma once

// A block of 32 x 8 threads transposes 32 x 32 floats.
template <class Place> __device__ void turn(float *out, const float *in) {
    __shared__ float tile[Place::size(32)];
    for (int j = threadIdx.y; j < 32; j += 8) {
        tile[Place::at(j, threadIdx.x)] = in[j * 32 + threadIdx.x];
    }
    __syncthreads();
    for (int j = threadIdx.y; j < 32; j += 8) {
        out[j * 32 + threadIdx.x] = tile[Place::at(threadIdx.x, j)];
    }
}
