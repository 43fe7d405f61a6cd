// Twelve cases, lanes of a warp in all of them: a branch table, or a tree of branches.
extern "C" __global__ void switch_dense(const unsigned *in, unsigned *out) {
    __shared__ unsigned s[2048], own[96 * 4];
    const int t = threadIdx.x;
    for (int i = t; i < 2048; i += 96) {
        s[i] = in[i];
    }
    __syncthreads();
    volatile unsigned *v = s, *w = own;
    unsigned x = 7;
    switch ((t + blockIdx.x) % 12) {
    case 0: x += v[t]; break;
    case 1: x ^= v[t * 2]; break;
    case 2: x -= v[t * 3]; // falls through
    case 3: x += v[t * 4] * 3; break;
    case 4: x *= v[t * 5]; break;
    case 5: x += v[t * 6] + v[t * 7]; break;
    case 6: x ^= v[t * 8]; w[t * 4] = x; x += w[t * 4]; break;
    case 7: x += v[t * 9]; break;
    case 8: x -= v[t * 10]; break;
    case 9: x += v[t * 16]; break;
    case 10: x *= v[t * 20]; break;
    default: x += v[2047 - t]; break;
    }
    out[blockIdx.x * 96 + t] = x;
}
