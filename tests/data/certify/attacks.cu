// Changes of layouts by hand, each kernel in three versions: V=0 is the old one, V=1 a change, V=2 another one. What is to
// come of each is in tests/certify/test_attacks.py. SW swizzles single elements, CH chunks of four; BAD and BADCH do not
// in V=2.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>
#include <cstring>
#include <mma.h>
#if V == 0
#define SW(r, c) ((r) * 32 + (c))
#else
#define SW(r, c) ((r) * 32 + ((c) ^ ((r) & 31)))
#endif
#define PL(r, c) ((r) * 32 + (c))
#if V == 0
#define CH(r, c) ((r) * 32 + (c))
#else
#define CH(r, c) ((r) * 32 + ((c) ^ (((r) & 7) << 2)))
#endif
#if V == 2
#define BAD(r, c) PL(r, c)
#define BADCH(r, c) PL(r, c)
#else
#define BAD(r, c) SW(r, c)
#define BADCH(r, c) CH(r, c)
#endif
typedef unsigned int u32; typedef unsigned long long u64;
static __device__ __forceinline__ u32 sa(const void *p) { return (u32)__cvta_generic_to_shared(p); }
#define KERNEL(name) \
    extern "C" __global__ void k_##name(const float *x, float *y, const int *g, int n, int flag)
#define FILL(at) \
    for (int r = ty; r < 32; r += 8) tile[at(r, tx)] = x[r * 32 + tx]; \
    __syncthreads()
#define tx ((int)threadIdx.x)
#define ty ((int)threadIdx.y)
namespace asm_v4_ {
KERNEL(asm_v4) {
 __shared__ __align__(16) float tile[1024];
 FILL(CH);
 float v = 0;
 float a,b,c,d; asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(a),"=f"(b),"=f"(c),"=f"(d) : "r"(sa(&tile[BADCH(tx, 4 * ty)]))); v = a + 2*b + 3*c + 5*d; y[ty * 32 + tx] = v;
}
}
namespace asm_cvta_ {
KERNEL(asm_cvta) {
 __shared__ float tile[1024];
 FILL(SW);
 float v = 0;
 asm volatile("{.reg .u64 a; cvta.to.shared.u64 a, %1; ld.shared.f32 %0, [a];}" : "=f"(v) : "l"(&tile[BAD(tx, ty)])); y[ty * 32 + tx] = v;
}
}
namespace asm_symbol_ {
extern "C" { __shared__ float tile[1024]; }
KERNEL(asm_symbol) {
 FILL(SW);
 float v = 0;
 asm volatile("{.reg .u32 a; mov.u32 a, tile; mad.lo.u32 a, %1, 4, a; ld.shared.f32 %0, [a];}" : "=f"(v) : "r"(BAD(tx, ty))); y[ty * 32 + tx] = v;
}
}
namespace asm_number_cvta_ {
KERNEL(asm_number_cvta) {
 __shared__ float tile[1024];
 FILL(SW);
 float v = 0;
 u64 a; asm volatile("cvta.shared.u64 %0, %1;" : "=l"(a) : "l"((u64)(flag * 4))); v = *(float *)a; v += tile[SW(tx, ty)]; y[ty * 32 + tx] = v;
}
}
namespace cg_shfl_offset_bad_ {
KERNEL(cg_shfl_offset_bad) {
 __shared__ float tile[1024];
 FILL(SW);
 float v = 0;
 int i = SW(tx, ty); i = __shfl_xor_sync(~0u, i, 1); v = tile[V ? i ^ (flag & 1) : i]; y[ty * 32 + tx] = v;
}
}
namespace cg_reduce_ {
KERNEL(cg_reduce) {
 __shared__ float tile[1024];
 FILL(SW);
 float v = 0;
 auto w = cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block()); v = cooperative_groups::reduce(w, tile[BAD(tx, ty)], cooperative_groups::plus<float>()); y[ty * 32 + tx] = v;
}
}
namespace bar_red_asm_ {
KERNEL(bar_red_asm) {
 __shared__ float tile[1024];
 FILL(SW);
 float v = 0;
 u32 i0 = 0, i1 = 0;
 for (int t = 0; t < 2; t++) { u32 p; asm volatile("{.reg .pred q; setp.ne.s32 q, %1, 0; barrier.sync 0; bar.red.popc.u32 %0, 0, q;}" : "=r"(p) : "r"(g[t])); if (t == 0) i0 = p & 31; else i1 = p & 31; }
#if V == 0
 v = tile[SW(tx, ty)];
#else
 v = tile[SW(tx, ty) ^ i0 ^ i1];
#endif
 y[ty * 32 + tx] = v;
}
}
namespace trap_ {
KERNEL(trap) {
 __shared__ float tile[1024];
 FILL(SW);
 float v = 0;
 v = tile[SW(tx, ty)];
 if (flag == 77) {
#if V == 2
 __trap();
#else
 asm volatile("exit;");
#endif
 }
 y[ty * 32 + tx] = v;
}
}
namespace union_private_ {
KERNEL(union_private) {
 __shared__ float tile[1024];
 FILL(SW);
 float v = 0;
 union { float *p; u64 a; } u; u.p = tile; u.a += 4 * BAD(tx, ty); v = *u.p; y[ty * 32 + tx] = v;
}
}
namespace bitfield_ {
KERNEL(bitfield) {
 struct B { u32 a : 7, b : 13, c : 12; }; __shared__ B tile[1024];
 for (int r = ty; r < 32; r += 8) { tile[SW(r, tx)].a = g[r]; tile[SW(r, tx)].b = g[r * 32 + tx]; tile[BAD(r, tx)].c = 5; }
 __syncthreads(); float v = tile[SW(tx, ty)].a + tile[SW(tx, ty)].b * 3 + tile[SW(tx, ty)].c;
 y[ty * 32 + tx] = v;
}
}
namespace recursion_ {
__device__ __noinline__ float f(float *p, int i, int d) { return d <= 0 ? p[i] : f(p, i, d - 1) + 1; }
KERNEL(recursion) {
 __shared__ float tile[1024];
 FILL(SW);
 float v = 0;
 v = f(tile, BAD(tx, ty), flag); y[ty * 32 + tx] = v;
}
}
namespace indirect_ {
typedef float (*F)(float *, int, int);
__device__ __noinline__ float one(float *p, int r, int c) { return p[SW(r, c)]; }
__device__ __noinline__ float two(float *p, int r, int c) { return 2 * p[BAD(r, c)]; }
KERNEL(indirect) {
 __shared__ float tile[1024];
 FILL(SW);
 float v = 0;
 F f = flag ? one : two; v = f(tile, tx, ty); y[ty * 32 + tx] = v;
}
}
namespace virtual_ {
struct A { __device__ virtual float at(float *p, int r, int c) = 0; };
struct One : A { __device__ float at(float *p, int r, int c) override { return p[SW(r, c)]; } };
struct Two : A { __device__ float at(float *p, int r, int c) override { return 2 * p[BAD(r, c)]; } };
KERNEL(virtual) {
 __shared__ float tile[1024];
 FILL(SW);
 float v = 0;
 One a; Two b; A *p = flag ? (A *)&a : &b; v = p->at(tile, tx, ty); y[ty * 32 + tx] = v;
}
}
namespace local_offsets_ {
KERNEL(local_offsets) {
 __shared__ float tile[1024];
 FILL(SW);
 float v = 0;
 int a[4]; for (int i = 0; i < 4; i++) a[i] = BAD(tx, (ty + i) & 31); for (int i = 0; i < 4; i++) v += tile[a[i]]; y[ty * 32 + tx] = v;
}
}
namespace local_pointers_ {
KERNEL(local_pointers) {
 __shared__ float tile[1024];
 FILL(SW);
 float v = 0;
 float *a[4]; for (int i = 0; i < 4; i++) a[i] = &tile[BAD(tx, (ty + i) & 31)]; for (int i = 0; i < 4; i++) v += *a[i]; y[ty * 32 + tx] = v;
}
}
namespace walk_column_ {
KERNEL(walk_column) {
 __shared__ float tile[1024];
 FILL(SW);
 float v = 0;
 float *e = tile + 1024; int r = 0; for (float *p = tile; p < e; p += 32, r++) v += p[V ? (tx ^ (V == 1 ? r : 0)) : tx]; y[ty * 32 + tx] = v;
}
}
namespace walk_rows_ {
KERNEL(walk_rows) {
 constexpr int W = V ? 33 : 32, STEP = V == 2 ? 32 : W;
 __shared__ float tile[32 * W];
 for (int r = ty; r < 32; r += 8) tile[r * W + tx] = x[r * 32 + tx];
 __syncthreads();
 float v = 0;
 const float *p = tile + tx; for (int i = 0; i < n; ++i, p += STEP) v += *p; y[ty * 32 + tx] = v;
}
}
namespace chosen_ {
KERNEL(chosen) {
 __shared__ float tile[1024];
 FILL(SW);
 const float *p = flag > 5 ? &tile[SW(tx, ty)] : &tile[BAD(tx, ty + 8)]; y[ty * 32 + tx] = *p;
}
}
namespace pointer_printed_ {
KERNEL(pointer_printed) {
 __shared__ float tile[1024];
 FILL(SW);
 float v = 0;
 v = tile[SW(tx, ty)]; if (flag == 3) printf("%p\n", &tile[SW(tx, 1)]); y[ty * 32 + tx] = v;
}
}
namespace pointer_in_shared_ {
KERNEL(pointer_in_shared) {
 __shared__ float tile[1024];
 FILL(SW);
 float v = 0;
 __shared__ float *p; if (tx + ty == 0) p = tile + 32 * flag; __syncthreads(); v = p[V == 1 ? tx ^ flag : tx]; y[ty * 32 + tx] = v;
}
}
namespace carved_ {
#if V == 0
#define P 32
#else
#define P 33
#endif
extern __shared__ __align__(16) char raw[];
KERNEL(carved) {
 float *a = reinterpret_cast<float *>(raw);
#if V == 2
 int *b = reinterpret_cast<int *>(raw + 4096);
#else
 int *b = reinterpret_cast<int *>(a + 32 * P);
#endif
 for (int r = ty; r < 32; r += 8) a[r * P + tx] = x[r * 32 + tx];
 if (ty == 0) b[tx] = g[tx];
 __syncthreads(); float v = a[tx * P + ty] + b[tx];
 y[ty * 32 + tx] = v;
}
#undef P
}
namespace cute_ {
template <int B, int M, int S> struct Swizzle { static __device__ constexpr int apply(int o) { return o ^ (((o >> (M + S)) & ((1 << B) - 1)) << M); } };
template <int S0, int S1> struct Stride { static __device__ constexpr int of(int i, int j) { return i * S0 + j * S1; } };
template <class S, class L> struct Composed { template <class... I> __device__ constexpr int operator()(I... i) const { return S::apply(L::of(i...)); } };
template <class P, class L> struct Tensor { P p; L l; template <class... I> __device__ decltype(auto) operator()(I... i) { return (p[l(i...)]); } };
template <class P, class L> __device__ auto make(P p, L l) { return Tensor<P, L>{p, l}; }
using Plain = Composed<Swizzle<0, 0, 0>, Stride<32, 1>>; using Swz = Composed<Swizzle<5, 0, 5>, Stride<32, 1>>; using Other = Composed<Swizzle<4, 0, 5>, Stride<32, 1>>;
#if V == 0
using L1 = Plain; using L2 = Plain;
#elif V == 1
using L1 = Swz; using L2 = Swz;
#elif V == 2
using L1 = Swz; using L2 = Other;
#else
using L1 = Swz; using L2 = Plain;
#endif
KERNEL(cute) {
 __shared__ float smem[1024]; auto s = make(smem, L1{}); auto t = make(smem, L2{});
 for (int r = ty; r < 32; r += 8) s(r, tx) = x[r * 32 + tx];
 __syncthreads(); float v = t(tx, ty);
 y[ty * 32 + tx] = v;
}
}
namespace racy_asm_ {
KERNEL(racy_asm) {
 __shared__ float tile[1024];
 FILL(SW);
 float v = 0;
 __shared__ int f; u32 a = 0, b = 0; if (tx + ty == 0) f = g[0]; u32 p = sa(&f);
 asm volatile("ld.shared.u32 %0, [%2]; ld.shared.u32 %1, [%2];" : "=r"(a), "=r"(b) : "r"(p));
#if V == 0
 v = tile[SW(tx, ty)];
#else
 v = tile[SW(tx, ty) ^ ((a ^ b) & 31)];
#endif
 y[ty * 32 + tx] = v;
}
}
namespace asm_local_p0_ {
KERNEL(asm_local_p0) {
 __shared__ float tile[1024];
 FILL(SW);
 float v = 0;
 int i;
 asm volatile("{.local .align 4 .b8 p3[8]; st.local.u32 [p3], 0;}" ::: "memory"); i = n;
#if V == 0
 v = tile[SW(tx, ty)];
#else
 v = tile[SW(tx, ty) ^ (i & 31)];
#endif
 y[ty * 32 + tx] = v;
}
}
namespace ballot_twice_ {
KERNEL(ballot_twice) {
 __shared__ float tile[1024];
 FILL(SW);
 float v = 0;
 u32 b = __ballot_sync(~0u, g[tx] > 0), c = __ballot_sync(~0u, g[ty] > 0);
 v = tile[SW(tx, ty) ^ (V ? (b ^ c) & 31 : 0)]; y[ty * 32 + tx] = v;
}
}
namespace table_ {
__constant__ int t[8] = {0, 3, 6, 5, 7, 4, 1, 2}; __constant__ int b[8] = {0, 3, 6, 5, 7, 4, 1, 1};
#define TB(r, c) ((r) * 8 + (V ? (V == 1 ? t : b)[((r) + (c)) & 7] : (c)))
KERNEL(table) {
 __shared__ float tile[64]; if (ty < 8 && tx < 8) tile[TB(ty, tx)] = x[ty * 8 + tx]; __syncthreads(); float v = tx < 8 ? tile[TB(tx, ty)] : 0;
 y[ty * 32 + tx] = v;
}
#undef TB
}
namespace misaligned_ {
KERNEL(misaligned) {
 __shared__ __align__(16) float tile[32 * 36];
#define Q(r, c) ((r) * (V == 1 ? 36 : V == 2 ? 33 : 32) + (c))
 for (int r = ty; r < 32; r += 8) tile[Q(r, tx)] = x[r * 32 + tx];
 __syncthreads(); float4 q = *(float4 *)&tile[Q(tx, 4 * ty)]; float v = q.x + q.w;
 y[ty * 32 + tx] = v;
}
#undef Q
}
namespace zero_fill_ {
#if V == 0
#define P 32
#else
#define P 33
#endif
KERNEL(zero_fill) {
 __shared__ float tile[32][P]; float *p = &tile[0][0]; for (int i = ty * 32 + tx; i < 1024; i += 256) p[i] = 0; __syncthreads();
 atomicAdd(&tile[g[tx] & 31][ty], 1.0f); __syncthreads(); float v = tile[tx][ty];
 y[ty * 32 + tx] = v;
}
#undef P
}
namespace two_arrays_ {
KERNEL(two_arrays) {
 __shared__ float a[1024], b[1024];
 for (int r = ty; r < 32; r += 8) { a[SW(r, tx)] = x[r * 32 + tx]; b[PL(r, tx)] = x[tx]; } __syncthreads();
 float *p = flag ? a : b; float v = p[V == 1 && flag ? SW(tx, ty) : PL(tx, ty)];
 y[ty * 32 + tx] = v;
}
}
namespace memcpy_ {
KERNEL(memcpy) {
 __shared__ __align__(16) float tile[1024];
 FILL(CH);
 float v = 0;
 float t[4]; memcpy(t, &tile[BADCH(tx, 4 * ty)], 16); v = t[0] + 2 * t[1] + 3 * t[2] + 5 * t[3]; y[ty * 32 + tx] = v;
}
}
namespace memset_ {
KERNEL(memset) {
 __shared__ float tile[1024];
 FILL(SW);
 float v = 0;
 __syncthreads(); if (ty == 0) memset(&tile[PL(tx, 0)], 0, 128 - 4 * flag); __syncthreads(); v = tile[SW(tx, ty)]; y[ty * 32 + tx] = v;
}
}
namespace bitonic_ {
KERNEL(bitonic) {
 __shared__ float s[1024]; 
#define BI(i) (V ? (i) ^ (((i) >> 5) & 31) : (i))
 for (int i = ty * 32 + tx; i < 1024; i += 256) s[BI(i)] = x[i]; __syncthreads(); float v = 0;
 for (int a = 2; a <= 1024; a <<= 1) for (int b = a >> 1; b > 0; b >>= 1) { for (int t = ty * 32 + tx; t < 1024; t += 256) { int o = t ^ b; if (o > t) { float p = s[BI(t)], q = s[V == 2 ? o : BI(o)]; if (((t & a) == 0) == (p > q)) { s[BI(t)] = q; s[BI(o)] = p; } } } __syncthreads(); }
 v = s[BI(ty * 32 + tx)];
 y[ty * 32 + tx] = v;
}
#undef BI
}
namespace wmma_ {
KERNEL(wmma) {
 __shared__ __align__(32) __half tile[16 * 24]; 
 const int P = V == 0 ? 16 : V == 1 ? 24 : 24, L = V == 2 ? 16 : P;
 for (int r = ty; r < 16; r += 8) if (tx < 16) tile[r * P + tx] = x[r * 16 + tx]; __syncthreads();
 nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __half, nvcuda::wmma::row_major> a; nvcuda::wmma::load_matrix_sync(a, tile, L); float v = 0; for (int i = 0; i < a.num_elements; i++) v += (float)a.x[i];
 y[ty * 32 + tx] = v;
}
}
namespace not_injective_ {
KERNEL(not_injective) {
 __shared__ float tile[1024];
#define NI(r, c) (V ? (r) * 32 + ((c) & (r) | (c) & 1) : (r) * 32 + (c))
 for (int r = ty; r < 32; r += 8) tile[NI(r, tx)] = x[r * 32 + tx]; __syncthreads(); float v = tile[NI(tx, ty)];
 y[ty * 32 + tx] = v;
}
#undef NI
}
