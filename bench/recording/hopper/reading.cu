// What wgmma reads through a descriptor, and where TMA puts a box: every byte of shared memory says where it is.
// "reading A|B TNSP < CASES > WORDS": a descriptor's 64 bits a line, less the tile's address; writes the byte offset of
// each element (m, k) or (n, k) as 32-bit words, 64 x 16 or 128 x 16 a case. "reading T < CASES": lines of
// "mode columns rows start"; the box's elements of 4 bytes, 16 KB a case.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define CHECK(call)                                                                                                     \
    do {                                                                                                               \
        cudaError_t status = (call);                                                                                   \
        if (status != cudaSuccess) { std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status)); std::exit(1); } \
    } while (0)

constexpr int kTile = 192 * 1024, kKnown = 4096;

__device__ uint32_t aligned(const void *p) { return ((uint32_t)__cvta_generic_to_shared(p) + 1023) & ~1023u; }

__device__ void put(uint32_t at, __half value) {
    asm volatile("st.shared.b16 [%0], %1;" ::"r"(at), "h"(__half_as_ushort(value)) : "memory");
}

// The other operand: the identity, K-major, no swizzle, 8x8 matrices of 128 bytes: 128 apart along K, 256 along M or N.
__device__ void identity(uint32_t known, int rows) {
    for (int i = threadIdx.x; i < rows * 16; i += 128) {
        const int row = i / 16, k = i % 16;
        put(known + row / 8 * 256 + k / 8 * 128 + row % 8 * 16 + k % 8 * 2, __float2half(row == k ? 1.f : 0.f));
    }
}

__device__ void fill(uint32_t tile, int high) {
    for (int i = threadIdx.x; i < kTile / 2; i += 128) put(tile + 2 * i, __int2half_rn(high ? i >> 9 : i & 511));
}

__device__ uint64_t known_descriptor(uint32_t at) { return (uint64_t)(at >> 4 & 0x3FFF) | 8ull << 16 | 16ull << 32; }

template <int tnsp> __device__ void a_times(float (&d)[8], uint64_t a, uint64_t b) {
    asm volatile("wgmma.fence.sync.aligned;\n"
                 "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, 1, 1, 1, %10, 0;\n"
                 "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
                 : "l"(a), "l"(b), "n"(tnsp) : "memory");
}

template <int tnsp> __device__ void times_b(float (&d)[64], uint64_t a, uint64_t b) {
    asm volatile(
        "wgmma.fence.sync.aligned;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"
        "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,"
        "%58,%59,%60,%61,%62,%63}, %64, %65, 1, 1, 1, 0, %66;\n"
        "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
          "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
          "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
          "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]),
          "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]),
          "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
          "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]),
          "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "l"(a), "l"(b), "n"(tnsp) : "memory");
}

__device__ void ready() {
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
}

template <int tnsp> __global__ void __launch_bounds__(128) read_a(const uint64_t *cases, uint32_t *out) {
    extern __shared__ char shared[];
    const uint32_t tile = aligned(shared), known = tile + kTile;
    identity(known, 16);
    uint32_t *mine = out + (size_t)blockIdx.x * 1024;
    for (int high = 0; high < 2; high++) {
        __syncthreads();
        fill(tile, high);
        ready();
        float d[8] = {};
        a_times<tnsp>(d, cases[blockIdx.x] + (tile >> 4), known_descriptor(known));
        for (int i = 0; i < 8; i++) {
            const int m = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + i / 2 % 2 * 8;
            const int k = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
            mine[m * 16 + k] = high ? mine[m * 16 + k] + ((int)d[i] * 512 * 2) : (int)d[i] * 2;
        }
    }
}

template <int tnsp> __global__ void __launch_bounds__(128) read_b(const uint64_t *cases, uint32_t *out) {
    extern __shared__ char shared[];
    const uint32_t tile = aligned(shared), known = tile + kTile;
    identity(known, 64);
    uint32_t *mine = out + (size_t)blockIdx.x * 2048;
    for (int high = 0; high < 2; high++) {
        __syncthreads();
        fill(tile, high);
        ready();
        float d[64] = {};
        times_b<tnsp>(d, known_descriptor(known), cases[blockIdx.x] + (tile >> 4));
        for (int i = 0; i < 64 && threadIdx.x < 32; i++) {
            const int k = threadIdx.x % 32 / 4 + i / 2 % 2 * 8, n = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
            mine[n * 16 + k] = high ? mine[n * 16 + k] + ((int)d[i] * 512 * 2) : (int)d[i] * 2;
        }
    }
}

__global__ void box(const __grid_constant__ CUtensorMap map, int start, int bytes, uint32_t *out) {
    extern __shared__ char shared[];
    __shared__ __align__(8) uint64_t barrier;
    const uint32_t tile = aligned(shared), at = (uint32_t)__cvta_generic_to_shared(&barrier);
    for (int i = threadIdx.x; i < 4096; i += 32) asm volatile("st.shared.b32 [%0], %1;" ::"r"(tile + 4 * i), "r"(~0u) : "memory");
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at) : "memory");
    ready();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %2}], [%3];"
                     ::"r"(tile + start), "l"(&map), "r"(0), "r"(at) : "memory");
    }
    uint32_t done = 0;
    for (int i = 0; i < 1 << 16 && !done; i++)
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(at) : "memory");
    __syncthreads();
    for (int i = threadIdx.x; i < 4096; i += 32) {
        uint32_t word;
        asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(tile + 4 * i) : "memory");
        out[i] = done ? word : ~1u;
    }
}

static void boxes() {
    std::vector<uint32_t> words(256 * 64), result(4096);
    for (size_t i = 0; i < words.size(); i++) words[i] = (uint32_t)i;
    void *buffer, *out;
    CHECK(cudaMalloc(&buffer, words.size() * 4));
    CHECK(cudaMalloc(&out, 16384));
    CHECK(cudaMemcpy(buffer, words.data(), words.size() * 4, cudaMemcpyHostToDevice));
    void *encode = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found));
    CHECK(cudaFuncSetAttribute(box, cudaFuncAttributeMaxDynamicSharedMemorySize, 32768));
    unsigned mode, columns, rows;
    int start;
    while (std::scanf("%u %u %u %d", &mode, &columns, &rows, &start) == 4) {
        CUtensorMap map;
        const cuuint64_t sizes[] = {64, 256}, strides[] = {256};
        const cuuint32_t box_[] = {columns, rows}, steps[] = {1, 1};
        const CUresult status = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
            &map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 2, buffer, sizes, strides, box_, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
            (CUtensorMapSwizzle)mode, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
        std::fill(result.begin(), result.end(), ~2u);
        if (status == CUDA_SUCCESS) {
            box<<<1, 32, 32768>>>(map, start, columns * rows * 4, (uint32_t *)out);
            CHECK(cudaDeviceSynchronize());
            CHECK(cudaMemcpy(result.data(), out, 16384, cudaMemcpyDeviceToHost));
        }
        std::fwrite(result.data(), 4, result.size(), stdout);
    }
}

int main(int count, char **words) {
    if (words[1][0] == 'T') { boxes(); return 0; }
    std::vector<uint64_t> cases;
    unsigned long long bits;
    while (std::scanf("%llu", &bits) == 1) cases.push_back(bits);
    const bool is_a = words[1][0] == 'A', tnsp = words[2][0] == '1';
    auto *kernel = is_a ? (tnsp ? read_a<1> : read_a<0>) : (tnsp ? read_b<1> : read_b<0>);
    const int shared = kTile + kKnown + 1024;
    const size_t size = cases.size() * (is_a ? 1024 : 2048) * 4;
    uint64_t *on_device;
    uint32_t *out;
    CHECK(cudaMalloc(&on_device, cases.size() * 8));
    CHECK(cudaMalloc(&out, size));
    CHECK(cudaMemcpy(on_device, cases.data(), cases.size() * 8, cudaMemcpyHostToDevice));
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    kernel<<<(unsigned)cases.size(), 128, shared>>>(on_device, out);
    CHECK(cudaDeviceSynchronize());
    std::vector<char> result(size);
    CHECK(cudaMemcpy(result.data(), out, size, cudaMemcpyDeviceToHost));
    std::fwrite(result.data(), 1, size, stdout);
}
