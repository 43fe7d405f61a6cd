"""Programs for the stand-in for CUDA's runtime: what device queries answer, and what of memory is known when."""

QUERIES = r"""
#include <cstring>
__global__ void nothing() {}
int main() {
    cudaDeviceProp p;
    int count, value;
    size_t unused, total;
    cudaGetDeviceCount(&count);
    cudaGetDeviceProperties(&p, 0);
    cudaMemGetInfo(&unused, &total);
    cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
    if (count != 1 || p.major != 9 || p.minor != 0 || p.multiProcessorCount != 132 || p.warpSize != 32 ||
        p.sharedMemPerBlockOptin != 232448 || p.sharedMemPerMultiprocessor != 233472 || value != 232448 ||
        p.maxThreadsPerMultiProcessor != 2048 || p.maxGridSize[0] != 2147483647 || p.maxThreadsDim[2] != 64 ||
        p.l2CacheSize != 52428800 || p.totalConstMem != 65536 || std::strcmp(p.name, "NVIDIA H100 80GB HBM3")) {
        return 3;
    }
    nothing<<<1, 1>>>();
    return total != p.totalGlobalMem;
}
"""

# What each launch of `use` finds in `in` is a case of its own; the comment says what is known of it.
MEMORY = r"""
#include <vector>
__device__ int counter = 7;
__constant__ int fixed[2] = {1, 2};
__global__ void use(const char *in, char *out) { out[threadIdx.x] = in[threadIdx.x] + counter + fixed[0]; }
struct Box { char *inner; };
__global__ void through(Box *box) { box->inner[threadIdx.x] = 1; }
int main() {
    char *in, *out, *inner;
    Box *box, host;
    std::vector<char> data(64, 'a');
    cudaMalloc(&in, 64);
    cudaMalloc(&out, 64);
    use<<<1, 32>>>(in, out);                                            // 0: nothing
    cudaMemcpy(in + 16, data.data(), 32, cudaMemcpyHostToDevice);
    use<<<1, 32>>>(in, out);                                            // 1: bytes 16 to 47
    use<<<1, 32>>>(in, out);                                            // 2: nothing, the kernel may have written it
    cudaMemset(in, 7, 64);
    cudaMemcpy(out, in, 8, cudaMemcpyDeviceToDevice);
    use<<<1, 32>>>(in, out);                                            // 3: all of in, 8 bytes of out
    cudaMalloc(&inner, 64);
    cudaMalloc(&box, sizeof(Box));
    host.inner = inner;
    cudaMemset(inner, 1, 64);
    cudaMemcpy(box, &host, sizeof(Box), cudaMemcpyHostToDevice);
    through<<<1, 32>>>(box);                                            // 4: box and inner
    cudaMemset(box, 0, sizeof(Box));
    use<<<1, 32>>>(inner, out);                                         // 5: nothing of inner
    int one = 1;
    cudaMemcpyToSymbol(counter, &one, sizeof one);
    use<<<1, 32>>>(inner, out);                                         // 6: counter is 1
    return 0;
}
"""

LACKING = r"""
__global__ void nothing() {}
int main() {
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    nothing<<<1, 1>>>();
    return cudaMallocArray(&array, &format, 64, 64, 0);
}
"""
