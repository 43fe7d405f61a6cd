template <int R, int C>
class Tile {
    float v[R][C];
  public:
    __device__ float& operator()(int r, int c) { return v[r][c]; }
    __device__ float* operator[](int r) { return this->v[r]; }
    __device__ float* part(int r) { return v[r * 2]; }
    // METHOD
};
// BEFORE
__global__ void k(float *o, int x, int y) {
    __shared__ Tile<32, 32> t;
    t.part(0)[0] = 0; t[0][0] = 0; // BODY
}
