// Shared arrays of every kind: of the file, of a function, of a template, dynamic, and two of one name.
namespace ns {
__shared__ float everywhere[128];
template <int N, class T> __device__ T* own() { __shared__ T inner[N]; return inner; }
template <int N, class T> __global__ void many(T* out) {
  __shared__ char odd[3];
  __shared__ alignas(128) T tile[N][N + 1];
  extern __shared__ double dynamic[];
  T* more = own<N, T>();
  const int x = threadIdx.x;
  more[x] = out[x]; tile[x][3] = x; everywhere[x] = 3 + x; odd[x % 3] = x; dynamic[x] = x;
  { __shared__ int q[4]; q[x & 3] = x; __syncthreads(); more[x] += q[(x + 1) & 3]; }
  { __shared__ int q[7]; q[x & 3] = x; __syncthreads(); more[x] += q[(x + 1) & 3]; }
  __syncthreads();
  out[x] = more[31 - x] + tile[31 - x][3] + everywhere[31 - x] + odd[(x + 1) % 3] + dynamic[31 - x];
}
template __global__ void many<32, float>(float*);
template __global__ void many<16, double>(double*);
}
__global__ void other(float* out) { __shared__ float z[4]; z[threadIdx.x & 3] = 1; __syncthreads(); out[0] = z[1]; }
