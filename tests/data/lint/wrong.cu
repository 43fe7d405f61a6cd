__global__ void wrong(float* x) { x[0] = nonsense; }
