// What kernels of PyTorch's extensions take from its headers, for where PyTorch is not installed: the types with the
// same layout, the macros with the same meaning. Host code is not compiled with it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <algorithm>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>

#define C10_HOST_DEVICE __host__ __device__
#define C10_HOST __host__
#define C10_DEVICE __device__
#define C10_ALWAYS_INLINE inline
#define C10_RESTRICT __restrict__
#define C10_UNUSED
#define C10_LAUNCH_BOUNDS_0 __launch_bounds__(256, 4)
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__(threads)
#define C10_LAUNCH_BOUNDS_2(threads, blocks) __launch_bounds__(threads, blocks)
#define C10_WARP_SIZE 32
#define CUDA_KERNEL_ASSERT(condition)
#define CUDA_KERNEL_LOOP_TYPE(i, n, type)                                                                              \
    for (type i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
#define CUDA_1D_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)

namespace c10 {
template <typename Own> struct alignas(2) Small {
    Own bits;
    Small() = default;
    __host__ __device__ Small(float value) : bits(value) {}
    __host__ __device__ Small(const Own& bits) : bits(bits) {}
    __host__ __device__ operator float() const { return static_cast<float>(bits); }
    __host__ __device__ Small& operator+=(float value) { return *this = Small(float(*this) + value); }
    __host__ __device__ Small& operator-=(float value) { return *this = Small(float(*this) - value); }
    __host__ __device__ Small& operator*=(float value) { return *this = Small(float(*this) * value); }
    __host__ __device__ Small& operator/=(float value) { return *this = Small(float(*this) / value); }
};
using Half = Small<__half>;
using BFloat16 = Small<__nv_bfloat16>;
} // namespace c10

namespace at {
using Half = c10::Half;
using BFloat16 = c10::BFloat16;

template <typename T> struct DefaultPtrTraits { using PtrType = T*; };
template <typename T> struct RestrictPtrTraits { using PtrType = T* __restrict__; };

template <typename T, size_t N, template <typename> class Traits = DefaultPtrTraits, typename Index = int64_t>
struct TensorAccessor {
    typename Traits<T>::PtrType data_;
    const Index* sizes_;
    const Index* strides_;
    __device__ TensorAccessor(typename Traits<T>::PtrType data, const Index* sizes, const Index* strides)
        : data_(data), sizes_(sizes), strides_(strides) {}
    __device__ typename Traits<T>::PtrType data() const { return data_; }
    __device__ Index size(Index i) const { return sizes_[i]; }
    __device__ Index stride(Index i) const { return strides_[i]; }
    __device__ decltype(auto) operator[](Index i) const {
        if constexpr (N == 1)
            return (data_[strides_[0] * i]);
        else
            return TensorAccessor<T, N - 1, Traits, Index>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
    }
};

template <typename T, size_t N, template <typename> class Traits = DefaultPtrTraits, typename Index = int64_t>
struct GenericPackedTensorAccessor {
    typename Traits<T>::PtrType data_;
    Index sizes_[N];
    Index strides_[N];
    __device__ typename Traits<T>::PtrType data() const { return data_; }
    __device__ Index size(Index i) const { return sizes_[i]; }
    __device__ Index stride(Index i) const { return strides_[i]; }
    __device__ decltype(auto) operator[](Index i) const {
        if constexpr (N == 1)
            return (data_[strides_[0] * i]);
        else
            return TensorAccessor<T, N - 1, Traits, Index>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
    }
};
template <typename T, size_t N, template <typename> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <typename T, size_t N, template <typename> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;
template <typename T, size_t N, template <typename> class Traits = DefaultPtrTraits>
using PackedTensorAccessor = PackedTensorAccessor64<T, N, Traits>;

template <typename T> struct OpMathType { using type = T; };
template <> struct OpMathType<Half> { using type = float; };
template <> struct OpMathType<BFloat16> { using type = float; };
template <typename T> using opmath_type = typename OpMathType<T>::type;
template <typename T, bool = true> struct AccumulateType : OpMathType<T> {};
template <typename T, bool cuda = true> using acc_type = typename AccumulateType<T, cuda>::type;
} // namespace at

namespace torch {
using namespace at;
}
