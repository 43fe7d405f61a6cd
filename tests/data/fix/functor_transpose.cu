// A transpose as an object with its parameters and its shared storage.

template <int Tile>
struct Transpose {
    static constexpr int kTile = Tile;
    static constexpr int kRows = 8;
    struct Params {
        const float* src;
        float* dst;
        int ld;
    };
    struct SharedStorage {
        float tile[kTile * kTile];
    };

    __device__ void operator()(Params const& params, SharedStorage& storage) const {
        int x = blockIdx.x * kTile + threadIdx.x, y = blockIdx.y * kTile + threadIdx.y;
        for (int i = 0; i < kTile; i += kRows)
            storage.tile[(threadIdx.y + i) * kTile + threadIdx.x] = params.src[(y + i) * params.ld + x];
        __syncthreads();
        x = blockIdx.y * kTile + threadIdx.x;
        y = blockIdx.x * kTile + threadIdx.y;
        for (int i = 0; i < kTile; i += kRows)
            params.dst[(y + i) * params.ld + x] = storage.tile[threadIdx.x * kTile + threadIdx.y + i];
    }
};

using Op = Transpose<32>;

__global__ void functor_transpose(const float* src, float* dst, int ld) {
    __shared__ typename Op::SharedStorage storage;
    Op::Params params{src, dst, ld};
    Op op;
    op(params, storage);
}
