// Matrices: products of bytes and of complex numbers, rotations of columns, blocks of sparse matrices, mma by ldmatrix.
#include "../costs/layout.cuh"

// Products of bytes, m16n8k32: tiles of 64 x 64 bytes, fragments read as words.
extern "C" __global__ void bytes64(int *out, const char *a, const char *b, int k) {
    constexpr int kPitch = pitch(64, 16);
    __shared__ __align__(16) char as[64 * kPitch], bs[64 * kPitch];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, row = warp * 16 + lane / 4;
    int sums[8][4] = {};
    for (int step = 0; step < k; step += 64) {
        for (int i = t; i < 256; i += 128) {
            int r = i / 4, c = i % 4 * 16;
            *reinterpret_cast<int4 *>(as + r * kPitch + c) =
                *reinterpret_cast<const int4 *>(a + (blockIdx.x * 64 + r) * k + step + c);
            *reinterpret_cast<int4 *>(bs + r * kPitch + c) = *reinterpret_cast<const int4 *>(b + r * k + step + c);
        }
        __syncthreads();
        for (int half = 0; half < 64; half += 32) {
            unsigned x[4];
            for (int j = 0; j < 4; ++j)
                x[j] = *reinterpret_cast<unsigned *>(as + (row + j % 2 * 8) * kPitch + half + j / 2 * 16 + lane % 4 * 4);
            for (int n = 0; n < 8; ++n) {
                const char *at = bs + (n * 8 + lane / 4) * kPitch + half + lane % 4 * 4;
                unsigned y0 = *reinterpret_cast<const unsigned *>(at), y1 = *reinterpret_cast<const unsigned *>(at + 16);
                asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                             "{%0,%1,%2,%3};"
                             : "+r"(sums[n][0]), "+r"(sums[n][1]), "+r"(sums[n][2]), "+r"(sums[n][3])
                             : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y0), "r"(y1));
            }
        }
        __syncthreads();
    }
    for (int n = 0; n < 8; ++n)
        for (int j = 0; j < 4; ++j)
            out[(blockIdx.x * 64 + row + j / 2 * 8) * 64 + n * 8 + lane % 4 * 2 + j % 2] = sums[n][j];
}

// Products of halves by ldmatrix: tiles of 64 x 32 halves; fixed: chunks of 16 bytes are XORed with the row.
extern "C" __global__ void halves32(float *out, const __half *a, const __half *b, int k) {
    __shared__ __align__(128) __half as[64 * 32], bs[64 * 32];
    auto at = [](int row, int chunk) { return row * 32 + (kFixed ? chunk ^ (row >> 1 & 3) : chunk) * 8; };
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    float sums[8][4] = {};
    for (int step = 0; step < k; step += 32) {
        for (int i = t; i < 256; i += 128) {
            int r = i / 4, c = i % 4;
            *reinterpret_cast<int4 *>(as + at(r, c)) =
                *reinterpret_cast<const int4 *>(a + (blockIdx.x * 64 + r) * k + step + c * 8);
            *reinterpret_cast<int4 *>(bs + at(r, c)) = *reinterpret_cast<const int4 *>(b + r * k + step + c * 8);
        }
        __syncthreads();
        for (int part = 0; part < 4; part += 2) {
            unsigned x[4], y[2], from = __cvta_generic_to_shared(as + at(warp * 16 + lane % 16, part + lane / 16));
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                         : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(from));
            for (int n = 0; n < 8; ++n) {
                from = __cvta_generic_to_shared(bs + at(n * 8 + lane % 8, part + lane / 8 % 2));
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(y[0]), "=r"(y[1]) : "r"(from));
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                             "{%0,%1,%2,%3};"
                             : "+f"(sums[n][0]), "+f"(sums[n][1]), "+f"(sums[n][2]), "+f"(sums[n][3])
                             : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
            }
        }
        __syncthreads();
    }
    for (int n = 0; n < 8; ++n)
        for (int j = 0; j < 4; ++j)
            out[(blockIdx.x * 64 + warp * 16 + lane / 4 + j / 2 * 8) * 64 + n * 8 + lane % 4 * 2 + j % 2] = sums[n][j];
}

// Complex products: tiles of 16 x 16 pairs of floats, the first matrix kept by columns.
extern "C" __global__ void complexed(float2 *out, const float2 *a, const float2 *b, int k) {
    __shared__ float2 as[16][pitch(16)], bs[16][16];
    int x = threadIdx.x, y = threadIdx.y;
    float2 sum = make_float2(0, 0);
    for (int step = 0; step < k; step += 16) {
        as[x][y] = a[(blockIdx.x * 16 + y) * k + step + x];
        bs[y][x] = b[(step + y) * 16 + x];
        __syncthreads();
        for (int i = 0; i < 16; ++i) {
            float2 p = as[i][y], q = bs[i][x];
            sum.x += p.x * q.x - p.y * q.y, sum.y += p.x * q.y + p.y * q.x;
        }
        __syncthreads();
    }
    out[(blockIdx.x * 16 + y) * 16 + x] = sum;
}

// Rotations of Givens: each warp turns two neighbouring columns of a matrix of 64 x 64, in rounds.
extern "C" __global__ void givens(float *out, const float *in, const float *angles, int rounds) {
    constexpr int kPitch = pitch(64);
    __shared__ float held[64 * kPitch];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, base = blockIdx.x * 4096;
    for (int i = t; i < 4096; i += 256) held[i / 64 * kPitch + i % 64] = in[base + i];
    __syncthreads();
    for (int round = 0; round < rounds; ++round) {
        float sine, cosine;
        __sincosf(angles[round], &sine, &cosine);
        for (int pair = warp; pair < 31; pair += 8)
            for (int row = lane; row < 64; row += 32) {
                float *at = held + row * kPitch + 2 * pair + round % 2, p = at[0], q = at[1];
                at[0] = cosine * p - sine * q, at[1] = sine * p + cosine * q;
            }
        __syncthreads();
    }
    for (int i = t; i < 4096; i += 256) out[base + i] = held[i / 64 * kPitch + i % 64];
}

// A sparse matrix of blocks of 16 x 16: a thread per row, blocks one after the other.
extern "C" __global__ void sparse16(float *out, const float *blocks, const float *in, int each) {
    constexpr int kPitch = pitch(16);
    __shared__ float held[8][16 * kPitch], part[8][16];
    int t = threadIdx.x, row = t % 16, which = t / 16;
    float sum = 0;
    for (int i = 0; i < each; ++i) {
        const float *block = blocks + ((blockIdx.x * 8 + which) * each + i) * 256;
        for (int j = row; j < 256; j += 16) held[which][j / 16 * kPitch + j % 16] = block[j];
        part[which][row] = in[i * 16 + row];
        __syncwarp();
        for (int j = 0; j < 16; ++j) sum += held[which][row * kPitch + j] * part[which][j];
        __syncwarp();
    }
    out[(blockIdx.x * 8 + which) * 16 + row] = sum;
}

// Particles as records of 8 floats; each thread meets all of the tile, beginning with its own.
extern "C" __global__ void records8(float *out, const float *in) {
    constexpr int kPitch = pitch(8);
    __shared__ float held[128 * kPitch];
    int t = threadIdx.x, base = blockIdx.x * 1024;
    for (int i = t; i < 1024; i += 128) held[i / 8 * kPitch + i % 8] = in[base + i];
    __syncthreads();
    const float *mine = held + t * kPitch;
    float x = mine[0], y = mine[1], z = mine[2], sum = 0;
    for (int k = 1; k < 64; ++k) {
        const float *other = held + ((t + k) & 127) * kPitch;
        float a = x - other[0], b = y - other[1], c = z - other[2];
        sum += other[3] * rsqrtf(a * a + b * b + c * c + 0.01f);
    }
    out[blockIdx.x * 128 + t] = sum;
}

// Sums along diagonals of a matrix of 64 x 64, as dynamic programs have them; a thread per diagonal.
extern "C" __global__ void skewed_sums(float *out, const float *in) {
    constexpr int kPitch = pitch(64);
    __shared__ float held[64 * kPitch];
    int t = threadIdx.x, base = blockIdx.x * 4096;
    for (int i = t; i < 4096; i += 64) held[i / 64 * kPitch + i % 64] = in[base + i];
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < 64; ++k) sum = 0.5f * sum + held[(t + 63 - k & 63) * kPitch + k];
    out[blockIdx.x * 64 + t] = sum;
}
