// rows; harmless: the variable has the macro's name, and no arguments
#define PUT(p, y, x) p[y][x] = 2
__global__ void k(float *o, int x) {
    __shared__ float t[32][32];
    int PUT = 0;
    PUT(t, 3, x);
}
