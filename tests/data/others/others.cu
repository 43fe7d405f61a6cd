namespace ns {
template <int N, typename T> __global__ void fn(const T* x, T* y, unsigned n) {
  __shared__ T tile[32 * N];
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x * N] = x[i];
  __syncthreads();
  if (i < n) y[i] = 2 * tile[threadIdx.x * N];
}
template __global__ void fn<1, float>(const float*, float*, unsigned);
template __global__ void fn<8, float>(const float*, float*, unsigned);
}
__global__ void plus(const int* x, int* y, int add) { y[threadIdx.x] = x[threadIdx.x] + add; }
__global__ void count(const unsigned char* x, unsigned* bins, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&bins[x[i]], 1u);
}
extern "C" __global__ void wild(int* p) { p[1l << 40] = 1; }
__global__ void none() { __shared__ volatile int x[64]; x[threadIdx.x] = threadIdx.x; }
__global__ void __launch_bounds__(64) bounded(int* y) { y[threadIdx.x] = 1; }
__global__ void dynamic(int* y) { extern __shared__ int s[]; s[threadIdx.x] = 1; y[threadIdx.x] = s[threadIdx.x]; }
