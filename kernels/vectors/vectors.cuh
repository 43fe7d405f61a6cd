// Row sums of 32x32 tiles of floats; each lane sums one row, `width` floats per load.
//
// A warp's request for 8 or 16 bytes per lane is served in 2 or 4 phases, so a conflict-free access takes 1, 2 or 4
// wavefronts for 4, 8 or 16 bytes per lane. Here the lanes go down a column: unless the layout spreads them out, all
// lanes of a phase (32, 16 or 8) hit the same banks.
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

// in: (tiles, 32, 32), out: (tiles, 32). Grid tiles / 4, 128 threads; one warp per tile.
template <int width, class Layout> __device__ __forceinline__ void sum_rows(const float *in, float *out) {
    constexpr int units = kTile / width; // per row
    __shared__ alignas(128) char smem[kWarps * Layout::bytes(kTile)];
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const auto tile = static_cast<uint32_t>(__cvta_generic_to_shared(smem + warp * Layout::bytes(kTile)));
    const size_t number = static_cast<size_t>(blockIdx.x) * kWarps + warp;
    in += number * kTile * kTile;

#pragma unroll
    for (int i = lane; i < kTile * units; i += 32) { // rows in, coalesced
        const auto unit = reinterpret_cast<const Floats<width> *>(in)[i];
        ptx::st_shared(tile + Layout::at(i / units, i % units), unit.x);
    }
    __syncwarp();

    float sum = 0.0f;
#pragma unroll
    for (int unit = 0; unit < units; ++unit) { // columns of units out
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
