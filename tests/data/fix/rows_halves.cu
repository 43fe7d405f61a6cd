// Transposes halves in tiles of 64 x 64, two at a time on the way in.

#include <cuda_fp16.h>

__global__ void transpose_halves(const __half *in, __half *out, int n)
{
	__shared__ __half tile[64][64];

	const int left = blockIdx.x * 64, top = blockIdx.y * 64;
	for (int y = threadIdx.y; y < 64; y += 8)
	{
		const __half2 pair = *reinterpret_cast<const __half2 *>(&in[(top + y) * n + left + 2 * threadIdx.x]);
		tile[y][2 * threadIdx.x] = __low2half(pair);
		tile[y][2 * threadIdx.x + 1] = __high2half(pair);
	}
	__syncthreads();
	for (int y = threadIdx.y; y < 64; y += 8)
	{
		out[(left + y) * n + top + threadIdx.x] = tile[threadIdx.x][y];
		out[(left + y) * n + top + threadIdx.x + 32] = tile[threadIdx.x + 32][y];
	}
}
