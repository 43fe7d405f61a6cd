// A program with launches of other kinds: a cluster, a cooperative launch, and a graph with a child graph whose node is
// changed before the second launch.
//
//   nvcc -arch=sm_90 -lineinfo -o shapes shapes.cu
#include <cooperative_groups.h>

#include <cstdio>
#include <cstdlib>

namespace cg = cooperative_groups;

static __global__ void exchange(float *out, int stride) {
    __shared__ float tile[32 * 32];
    cg::cluster_group cluster = cg::this_cluster();
    tile[threadIdx.x * stride % 1024] = static_cast<float>(cluster.block_rank());
    cluster.sync();
    const float *other = cluster.map_shared_rank(tile, cluster.block_rank() ^ 1);
    out[blockIdx.x * blockDim.x + threadIdx.x] = other[threadIdx.x * stride % 1024];
    cluster.sync();
}

static __global__ void together(float *out, int stride) {
    __shared__ float tile[1024];
    tile[threadIdx.x * stride % 1024] = out[blockIdx.x * blockDim.x + threadIdx.x];
    cg::this_grid().sync();
    out[blockIdx.x * blockDim.x + threadIdx.x] = tile[threadIdx.x * stride % 1024];
}

static __global__ void strided(float *out, int stride) {
    __shared__ float tile[1024];
    tile[threadIdx.x * stride % 1024] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}

static void check(cudaError_t status, const char *what) {
    if (status != cudaSuccess) {
        std::fprintf(stderr, "shapes: %s: %s\n", what, cudaGetErrorString(status));
        std::exit(1);
    }
}

static void launch_cluster(float *out) {
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = 2;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    config.gridDim = dim3(4);
    config.blockDim = dim3(64);
    config.attrs = &cluster;
    config.numAttrs = 1;
    check(cudaLaunchKernelEx(&config, exchange, out, 8), "cudaLaunchKernelEx");
}

static void launch_graph(float *out) {
    cudaGraph_t graph, child;
    cudaGraphNode_t node, whole;
    cudaGraphExec_t executable;
    cudaStream_t stream;
    int stride = 4;
    void *parameters[] = {&out, &stride};
    cudaKernelNodeParams kernel = {};
    kernel.func = reinterpret_cast<void *>(strided);
    kernel.gridDim = dim3(1);
    kernel.blockDim = dim3(128);
    kernel.kernelParams = parameters;
    check(cudaStreamCreate(&stream), "cudaStreamCreate");
    check(cudaGraphCreate(&child, 0), "cudaGraphCreate");
    check(cudaGraphAddKernelNode(&node, child, nullptr, 0, &kernel), "cudaGraphAddKernelNode");
    check(cudaGraphCreate(&graph, 0), "cudaGraphCreate");
    check(cudaGraphAddChildGraphNode(&whole, graph, nullptr, 0, child), "cudaGraphAddChildGraphNode");
    stride = 2;
    check(cudaGraphAddKernelNode(&node, graph, &whole, 1, &kernel), "cudaGraphAddKernelNode");
    check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    check(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
    stride = 16;
    check(cudaGraphExecKernelNodeSetParams(executable, node, &kernel), "cudaGraphExecKernelNodeSetParams");
    check(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

int main() {
    float *out;
    int stride = 3;
    check(cudaMalloc(&out, 4096 * sizeof(float)), "cudaMalloc");
    check(cudaMemset(out, 0, 4096 * sizeof(float)), "cudaMemset");
    launch_cluster(out);
    void *parameters[] = {&out, &stride};
    check(cudaLaunchCooperativeKernel(together, dim3(2), dim3(256), parameters, 0, nullptr), "cudaLaunchCooperativeKernel");
    launch_graph(out);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    std::printf("shapes: launched\n");
    return 0;
}
