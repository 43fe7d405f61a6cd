// Compaction: a ballot and a population count say where each lane writes.
extern "C" __global__ void votes(unsigned *out) {
    __shared__ unsigned s[512];
    const int t = threadIdx.x;
    const int lane = t % 32, warp = t / 32;
    for (int i = t; i < 512; i += 128) {
        s[i] = 0;
    }
    __syncthreads();
    const bool chosen = (t * 7 + blockIdx.x) % 3 == 0;
    const unsigned ballot = __ballot_sync(0xffffffffu, chosen);
    const int place = __popc(ballot & ((1u << lane) - 1));
    if (chosen) {
        s[warp * 128 + place * 4] = t + 1;
    }
    __syncwarp();
    unsigned x = s[warp * 128 + lane * 4 % 128];
    if (__any_sync(0xffffffffu, t == 70) && !__all_sync(0xffffffffu, chosen)) {
        x += s[(warp * 128 + __ffs(ballot) * 4) % 512];
    }
    const unsigned same = __match_any_sync(0xffffffffu, t % 5);
    x += s[__popc(same) * 8 % 512];
    out[blockIdx.x * 128 + t] = x;
}
