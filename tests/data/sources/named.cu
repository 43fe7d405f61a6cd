namespace ns {
template <int N, typename T, bool B> __global__ void fn(const T* x, T* y, unsigned n) { y[0] = x[n] * N; }
template __global__ void fn<32, float, true>(const float*, float*, unsigned);
template __global__ void fn<64, double, false>(const double*, double*, unsigned);
}
namespace { __global__ void hidden(int* p) { *p = 1; } }
void use(int* p) { hidden<<<1, 1>>>(p); }
__device__ __noinline__ int helper(int x) { return x * x + clock(); }
extern "C" __global__ void plain(float4* a, double d, bool b, long long l) { a[0].x = d + b + l + helper(l); }
struct Pair { float* p; int n; };
__global__ void structure(Pair s) { s.p[s.n] = 1; }
__global__ void none() {}
