extern __shared__ int planes[];
extern "C" __global__ void volume(const unsigned short* voxels, int* counts, int width, int height, bool on) {
    int at = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    planes[at] = voxels[at + blockIdx.y * width];
    __syncthreads();
    if (on) atomicAdd(&counts[at], planes[at ^ 1]);
}
