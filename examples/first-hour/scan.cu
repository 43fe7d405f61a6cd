// An exclusive scan of 1024 numbers per block, up and down a tree in shared memory. At step d, neighbouring threads are
// 2d words apart: with -DPAD=0 they meet in ever fewer banks. With -DPAD=1 every 32nd word is left empty.

#ifndef PAD
#define PAD 1
#endif

constexpr int kCount = 1024;

__device__ int place(int i) {
#if PAD
  return i + i / 32;
#else
  return i;
#endif
}

// Each block of 512 threads scans its own 1024 numbers.
__global__ void scan(const int* __restrict__ in, int* __restrict__ out) {
  __shared__ int tree[kCount + kCount / 32];
  const int t = threadIdx.x, first = blockIdx.x * kCount;
  tree[place(t)] = in[first + t];
  tree[place(t + kCount / 2)] = in[first + t + kCount / 2];
  for (int d = 1; d < kCount; d *= 2) {
    __syncthreads();
    if (t < kCount / 2 / d) {
      tree[place(2 * d * (t + 1) - 1)] += tree[place(2 * d * t + d - 1)];
    }
  }
  if (t == 0) tree[place(kCount - 1)] = 0;
  for (int d = kCount / 2; d > 0; d /= 2) {
    __syncthreads();
    if (t < kCount / 2 / d) {
      const int left = place(2 * d * t + d - 1), right = place(2 * d * (t + 1) - 1);
      const int sum = tree[right] + tree[left];
      tree[left] = tree[right];
      tree[right] = sum;
    }
  }
  __syncthreads();
  out[first + t] = tree[place(t)];
  out[first + t + kCount / 2] = tree[place(t + kCount / 2)];
}
