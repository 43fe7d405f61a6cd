// Tiles of 8 and of 32 threads from cooperative groups, and what they pass on to each other.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

extern "C" __global__ void cooperative_tiles(const unsigned *in, unsigned *out) {
    __shared__ unsigned s[1024];
    const cg::thread_block block = cg::this_thread_block();
    const int t = block.thread_rank();
    for (int i = t; i < 1024; i += block.size()) {
        s[i] = in[i];
    }
    block.sync();
    const auto eight = cg::tiled_partition<8>(block);
    const auto warp = cg::tiled_partition<32>(block);
    const int place = eight.shfl(t * 8, (eight.thread_rank() * 3) % 8);
    unsigned x = s[place & 1023] + s[eight.meta_group_rank() * 32 + eight.thread_rank()];
    if (eight.any(t % 16 == 3)) {
        x += s[(eight.thread_rank() * 64) & 1023];
    }
    warp.sync();
    for (int offset = 4; offset > 0; offset /= 2) {
        x += eight.shfl_xor(x, offset);
    }
    out[blockIdx.x * block.size() + t] = x + s[warp.ballot(t % 7 == 0) & 1023];
}
