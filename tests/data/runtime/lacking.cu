// Calls a function that the stand-in for the runtime lacks.
__global__ void nothing() {}
int main() {
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    nothing<<<1, 1>>>();
    return cudaMallocArray(&array, &format, 64, 64, 0);
}
