// What each launch of `use` finds in `in` is a case of its own; the comment says what is known of it.
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
