// Arithmetic and control flow that a GPU and a host compile alike: values.cu runs it in kernels, values.cpp here.

typedef long long i64; typedef unsigned long long u64; typedef unsigned u32;
HD static int f0(int t, int n) { return t / n + (t % n) * 1000; }
HD static int f1(int t, int n) { u32 a = (u32)t * 2654435761u; return a / (u32)(n + 3) + a % (u32)(n|1); }
HD static int f2(int t, int n) { i64 a = (i64)t * 1234567891011LL - 98765432109876LL; return (int)(a / n) ^ (int)(a % (n + 7)); }
HD static int f3(int t, int n) { u64 a = (u64)(t + 1) * 0x9E3779B97F4A7C15ull; return (int)(a / (u64)(n*77777777777ll)) + (int)((a >> 7) % 1000003); }
HD static int f4(int t, int n) { int s = 0; for (int i = 0; i < t % 13; i++) { if (i % 3 == n % 3) continue; if (i * n > 60) break; for (int j = i; j < n; j += 2) s += i * j ^ t; } return s; }
HD static int f5(int t, int n) { switch ((t * n) % 11) { case 0: return t; case 1: return n; case 2: t += 5; case 3: t *= 3; break; case 5: return t ^ n; case 7: t -= n; break; case 9: return -t; default: t = t * t; } return t + n; }
HD static NI int g6(int a, int b) { int s = 1; while (b > 0) { if (b & 1) s *= a; a *= a; b >>= 1; } return s; }
HD static int f6(int t, int n) { return (t & 1 ? g6(t, n) : g6(n, t % 9)) + g6(3, t & 7); }
HD static NI int g7(int n) { return n < 2 ? n : g7(n - 1) + g7(n - 2); }
HD static int f7(int t, int n) { return g7(t % 9) + n; }
HD static int f8(int t, int n) { int a[24]; for (int i = 0; i < 24; i++) a[i] = (i * n + t) % 23; int s = 0, p = t % 24; for (int i = 0; i < 30; i++) { s = s * 3 + p; int q = a[p]; a[p] = s & 15; p = q; } return s; }
HD static int f9(int t, int n) { short a = (short)(t * 777); signed char b = (signed char)(t * n); unsigned char c = (unsigned char)(t * 31); unsigned short d = (unsigned short)(a ^ n); return a * 3 + b * 5 + c * 7 + d; }
HD static int f10(int t, int n) { float x = (float)t * 1.37f + (float)n; int r = (int)x; float y = x * x - 3.f; return r + (int)floorf(y * 0.01f) * 1000 + (y > 50.f ? 1 : 0) + (int)ceilf(x / 4.0f); }
HD static int f11(int t, int n) { u64 v = ((u64)t << 33) | ((u64)n << 5) | 7; v = (v << (t & 63)) | (v >> ((64 - (t & 63)) & 63)); i64 w = (i64)v >> (n & 63); return (int)w ^ (int)(v >> 32); }
HD static int f12(int t, int n) { int s = 0; for (int i = 1; i <= n; ++i) { int a = t * i; if (a & 4) { if (a & 8) s += 3; else { s -= a; if (a % 5 == 0) return s * 7; } } else if (a & 16) s ^= i; } return s; }
struct P { int a; short b; char c; int d[3]; };
HD static int f13(int t, int n) { P p[4]; for (int i = 0; i < 4; i++) { p[i].a = t + i; p[i].b = (short)(t * i); p[i].c = (char)(n - i); p[i].d[0] = i; p[i].d[1] = t ^ i; p[i].d[2] = n; } P *q = &p[(t + n) & 3]; return q->a + q->b * 3 + q->c * 5 + q->d[t % 3]; }
HD static int f14(int t, int n) { int lo = 0, hi = 1000; while (lo < hi) { int m = (lo + hi) / 2; if (m * m < t * n) lo = m + 1; else hi = m; } return lo; }
HD static int f15(int t, int n) { int m = t; int r = 0; do { r += m & 1; m = (m >> 1) ^ (m & 1 ? 0xB8 : 0); } while (m != 0 && r < n); return r * 100 + m; }
HD static int f16(int t, int n) { u32 x = (u32)t * 0x01010101u + (u32)n; x = ((x & 0xff00ff00u) >> 8) | ((x & 0x00ff00ffu) << 8); x = (x >> 16) | (x << 16); int mn = t < n ? t : n, mx = t > n ? t : n; return (int)x + mn * 3 - mx + (t > 10 && n < 9 || t == 3); }
HD static int f17(int t, int n) { i64 a = (i64)t - n; i64 b = a * a * a; if (b < 0) b = -b; if (b > 100000) b %= 99991; u64 c = (u64)b * 3 + (a < 0 ? 1 : 0); return (int)(c + (c >> 3)); }
HD static int f18(int t, int n) { double x = t * 0.5 + n; return (int)x + (int)(x * x); }
HD static int f19(int t, int n) { int a = t, b = n * 37 + 1; while (b) { int c = a % b; a = b; b = c; } return a; }
#define ALL X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19)
