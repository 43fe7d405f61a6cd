// A PyTorch extension, as many repositories have one: no main, and PyTorch need not be installed to lint it.
#include <torch/extension.h>

template <typename scalar_t, int TILE>
__global__ void transpose_kernel(scalar_t* out, const scalar_t* in, int rows, int columns) {
    __shared__ scalar_t tile[TILE][TILE];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += 8)
        tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * columns + x];
    __syncthreads();

    x = blockIdx.y * TILE + threadIdx.x, y = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += 8)
        out[(y + j) * rows + x] = tile[threadIdx.x][threadIdx.y + j];
}

torch::Tensor transpose(torch::Tensor in) {
    auto out = torch::empty({in.size(1), in.size(0)}, in.options());
    const dim3 blocks(in.size(1) / 32, in.size(0) / 32), threads(32, 8);
    AT_DISPATCH_FLOATING_TYPES(in.scalar_type(), "transpose", [&] {
        transpose_kernel<scalar_t, 32><<<blocks, threads>>>(
            out.data_ptr<scalar_t>(), in.data_ptr<scalar_t>(), in.size(0), in.size(1));
    });
    return out;
}
