// Kernels whose outputs are those of warps.txt, which NumPy agreed to.
// Compiled by nvcc 13.0 for sm_90; tests/data/cubins has the cubin and its SASS.

#define KERNEL(name) extern "C" __global__ void name(int* out, const int* in, int n)
#define T int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)

KERNEL(scan) {  // inclusive prefix sum through shared memory
    __shared__ int s[256];
    T;
    s[t] = in[t];
    __syncthreads();
    for (int step = 1; step < blockDim.x; step *= 2) {
        int v = t >= step ? s[t - step] : 0;
        __syncthreads();
        s[t] += v;
        __syncthreads();
    }
    out[t] = s[t];
}

KERNEL(bitonic) {  // sort through shared memory: data decide what is stored, not where
    __shared__ int s[256];
    T;
    s[t] = in[t];
    __syncthreads();
    for (int k = 2; k <= 256; k *= 2)
        for (int j = k / 2; j > 0; j /= 2) {
            int other = t ^ j;
            if (other > t && (s[t] > s[other]) == ((t & k) == 0)) {
                int v = s[t];
                s[t] = s[other];
                s[other] = v;
            }
            __syncthreads();
        }
    out[t] = s[t];
}

KERNEL(gather) {  // an index array from global memory feeds addresses
    __shared__ int s[256];
    T;
    s[(in[t] * 5 + 1) & 255] = t;
    __syncthreads();
    out[t] = s[(t * n) & 255];
}

KERNEL(histogram) {
    __shared__ int s[16];
    T;
    if (t < 16) s[t] = 0;
    __syncthreads();
    atomicAdd(&s[in[t] & 15], 1);
    atomicAdd(&s[in[t] >> 4 & 15], t);
    __syncthreads();
    if (t < 16) out[t] = s[t];
}

KERNEL(votes) {
    T;
    unsigned odd = __ballot_sync(~0u, in[t] & 1);
    int before = __popc(odd & ((1u << (t & 31)) - 1));
    int v = __shfl_xor_sync(~0u, in[t], 5) + 3 * __shfl_up_sync(~0u, in[t], 3) + 7 * __shfl_down_sync(~0u, in[t], 2, 8);
    v += __shfl_sync(~0u, in[t], t * 3, 16) + __any_sync(~0u, in[t] == 77) + 2 * __all_sync(~0u, in[t] >= 0);
    v += __popc(__match_any_sync(~0u, in[t] & 3)) + __reduce_max_sync(~0u, in[t] & 63) + __ffs(odd) + __clz(in[t]);
    v += __syncthreads_count(in[t] & 1) + 5 * __syncthreads_or(in[t] == 3) + 9 * __syncthreads_and(in[t] != -1);
    out[t] = v * 64 + before;
}

__device__ __noinline__ int walk(const int* p, int at, int steps) {
    while (steps-- > 0) at = p[at & 255];
    return at;
}

KERNEL(chase) {  // generic pointers into shared memory, a called function, trip counts that differ by thread
    __shared__ int s[256];
    T;
    s[t] = in[t] & 255;
    __syncthreads();
    out[t] = walk(s, t, t % 7) + walk(n > 100 ? in : s, t + 1, 3);
}

__constant__ int primes[8] = {2, 3, 5, 7, 11, 13, 17, 19};

KERNEL(tables) {  // a constant table, a local array that is indexed by data, bytes and half words in shared memory
    __shared__ unsigned char b[256];
    __shared__ short h[256];
    int a[40];
    T;
    b[t] = (unsigned char)(in[t] * primes[t & 7]);
    h[255 - t] = (short)(in[t] * n);
    for (int i = 0; i < 40; i++) a[i] = i * primes[i & 7];
    __syncthreads();
    a[b[t ^ 3] % 40] += 1000;
    out[t] = a[b[t] % 40] + h[t];
}

KERNEL(apart) {  // threads of one warp in different loops, left early, and together again
    __shared__ int s[256];
    T;
    s[t] = t;
    __syncwarp();
    int sum = 0;
    if (t % 3 == 0) {
        for (int i = 0; i < t % 11; i++) {
            if (i == 7) break;
            sum += s[(t + i) & 255];
        }
    } else if (t % 3 == 1) {
        int i = t;
        while (i > n) {
            sum -= i & 3;
            i = i / 2;
            if (i % 5 == 4) continue;
            sum += s[i];
        }
    } else if (t > 200)
        return;
    __syncwarp(__activemask());
    out[t] = sum + n;
}

KERNEL(warps) {  // each warp does something else, and they meet at named barriers
    __shared__ int s[256];
    T;
    int warp = t / 32;
    if (warp < 4) {
        s[t] = in[t] + 1;
        asm volatile("bar.sync 1, 256;" ::: "memory");
        asm volatile("bar.sync 2, 256;" ::: "memory");
        out[t] = s[t + 128];
    } else {
        asm volatile("bar.sync 1, 256;" ::: "memory");
        s[t] = s[t - 128] * 2;
        asm volatile("bar.sync 2, 256;" ::: "memory");
        out[t] = s[t];
    }
}

KERNEL(vectors) {  // loads and stores of 8 and 16 bytes, through reinterpreted pointers
    __shared__ __align__(16) int s[1024];
    T;
    int4 v = make_int4(in[t], t, in[t] ^ t, n);
    reinterpret_cast<int4*>(s)[t] = v;
    __syncthreads();
    int2 w = reinterpret_cast<int2*>(s)[(t * 2 + 1) & 511];
    int4 x = reinterpret_cast<int4*>(s)[(t * 3) & 255];
    out[t] = w.x + 3 * w.y + 5 * x.x - x.y + 7 * x.z + x.w;
}
