// 16 x 16 threads; constexpr sizes, an element type that is a parameter, and a pitch of its own.

constexpr int kSide = 16;
constexpr int kPitch = 2 * kSide;

template <class T>
__global__ void mirror(const T* in, T* out, int n) {
    __shared__ T pane[kPitch * kPitch];
    const int x = threadIdx.x, y = threadIdx.y;
    for (int dy = 0; dy < kPitch; dy += kSide)
        for (int dx = 0; dx < kPitch; dx += kSide)
            pane[(y + dy) * kPitch + x + dx] = in[(blockIdx.y * kPitch + y + dy) * n + blockIdx.x * kPitch + x + dx];
    __syncthreads();
    for (int dy = 0; dy < kPitch; dy += kSide)
        for (int dx = 0; dx < kPitch; dx += kSide)
            out[(blockIdx.x * kPitch + y + dy) * n + blockIdx.y * kPitch + x + dx] = pane[(x + dx) * kPitch + y + dy];
}

template __global__ void mirror<unsigned>(const unsigned*, unsigned*, int);
