__device__ __forceinline__ void put(float (*tile)[32], float x) {
    tile[threadIdx.x][threadIdx.y] = x;
}
