// The sum of each row of 32x32 tiles of floats; a lane adds up one row, `width` floats per load.
//
// A warp's request for 8 or 16 bytes per lane is served in 2 or 4 phases, so an access without conflicts takes 1, 2
// or 4 wavefronts for 4, 8 or 16 bytes per lane. Lanes go down a column here: unless the layout keeps them apart,
// every lane of a phase lies in the same banks, 32, 16 or 8 of them.
#pragma once

#include "layout.cuh"
#include "ptx.cuh"

namespace vectors {

constexpr int kTile = 32;
constexpr int kRowBytes = kTile * sizeof(float);
constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;

template <int width> struct alignas(width * sizeof(float)) Floats {
    float x[width];
};

// in: (tiles, 32, 32), out: (tiles, 32). Grid tiles / 4, 128 threads; a warp takes a tile.
template <int width, class Layout> __device__ __forceinline__ void sum_rows(const float *in, float *out) {
    constexpr int units = kTile / width; // of a row
    __shared__ alignas(128) char smem[kWarps * Layout::bytes(kTile)];
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const auto tile = static_cast<uint32_t>(__cvta_generic_to_shared(smem + warp * Layout::bytes(kTile)));
    const size_t number = static_cast<size_t>(blockIdx.x) * kWarps + warp;
    in += number * kTile * kTile;

#pragma unroll
    for (int i = lane; i < kTile * units; i += 32) { // rows go in, contiguous
        const auto unit = reinterpret_cast<const Floats<width> *>(in)[i];
        ptx::st_shared(tile + Layout::at(i / units, i % units), unit.x);
    }
    __syncwarp();

    float sum = 0.0f;
#pragma unroll
    for (int unit = 0; unit < units; ++unit) { // a column of units comes out
        float x[width];
        ptx::ld_shared(x, tile + Layout::at(lane, unit));
#pragma unroll
        for (float part : x) {
            sum += part;
        }
    }
    out[number * kTile + lane] = sum;
}

} // namespace vectors
