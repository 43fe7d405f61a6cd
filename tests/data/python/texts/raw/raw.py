class RawKernel:
    def __init__(self, code, name, options=()):
        self.code, self.name, self.options = code, name, options


turn = RawKernel(
    r"""
extern "C" __global__ void turn(const float *x, float *y, int n) {
    __shared__ float tile[32][WIDTH];
    for (int row = threadIdx.y; row < 32; row += 8)
        tile[row][threadIdx.x] = x[(blockIdx.y * 32 + row) * n + blockIdx.x * 32 + threadIdx.x];
    __syncthreads();
    for (int row = threadIdx.y; row < 32; row += 8)
        y[(blockIdx.x * 32 + row) * n + blockIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][row];
}
extern "C" __global__ void other(float *y) { y[0] = 0; }
""",
    "turn",
    options=("-DWIDTH=32", "--use_fast_math"),
)
odd = RawKernel("__global__ void odd() {}", "odd", options=("--maxrregcount=32",))
