// A histogram of bytes: each thread counts in its own 64 counters, so no atomics are needed. With -DCOLUMNS=0 a thread's
// counters are a row, and the bank is that of the value; with -DCOLUMNS=1 they are a column, whose bank is the thread's.

#ifndef COLUMNS
#define COLUMNS 1
#endif

constexpr int kBins = 64, kThreads = 32;

__device__ int place(int thread, int bin) {
#if COLUMNS
  return bin * kThreads + thread;
#else
  return thread * kBins + bin;
#endif
}

// counts[bin] += how many of n values have it, for n a multiple of 32; a block is one warp.
__global__ void histogram(const unsigned char* __restrict__ values, unsigned* __restrict__ counts, int n) {
  __shared__ unsigned own[kBins * kThreads];
  for (int bin = 0; bin < kBins; ++bin) own[place(threadIdx.x, bin)] = 0;
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < n; i += gridDim.x * kThreads) {
    ++own[place(threadIdx.x, values[i] % kBins)];
  }
  __syncwarp();
  for (int bin = threadIdx.x; bin < kBins; bin += kThreads) {
    unsigned sum = 0;
    for (int step = 0; step < kThreads; ++step) {
      sum += own[place((step + bin) % kThreads, bin)];  // each thread starts at another one's counter
    }
    atomicAdd(&counts[bin], sum);
  }
}
