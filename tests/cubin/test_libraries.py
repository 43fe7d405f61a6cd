"""Headers of CUDA and of libraries, told from the user's files by their paths."""

from __future__ import annotations

from ncu_swizzle.cubin.lines import is_library, is_wmma

LIBRARIES = (
    "/usr/local/cuda-13.0/bin/../targets/x86_64-linux/include/crt/mma.hpp",
    "/usr/local/cuda/include/device_atomic_functions.hpp",
    "/opt/cuda/include/cuda_fp16.hpp",
    "/opt/nvidia/hpc_sdk/Linux_x86_64/24.1/cuda/12.3/targets/x86_64-linux/include/sm_20_atomic_functions.hpp",
    "/apps/spack/linux/cuda-12.4.1-abcdef/include/cooperative_groups.h",
    "C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v12.4\\include\\crt/mma.hpp",
    "/home/me/project/.venv/lib/python3.12/site-packages/nvidia/cu13/include/cub/block/block_scan.cuh",
    "/home/me/.venv/lib/python3.12/site-packages/triton/language/standard.py",
    "/home/me/project/third_party/cutlass/include/cute/arch/copy.hpp",
    "site/cutlass_library/source/include/cute/arch/copy.hpp",
    "cute/arch/copy_sm75.hpp",
    "/opt/conda/include/thrust/sort.h",
    "/usr/include/c++/13/bits/move.h",
    "/home/me/cccl/libcudacxx/include/cuda/std/array",
)
OWN = (
    "/home/me/cuda-samples/common/include/tile.cuh",
    "/home/me/project/cuda/include/tile.cuh",
    "/home/me/project/include/cuda/tile.cuh",
    "/home/me/project/mma.hpp",
    "/usr/src/app/kernel.cu",
    "/opt/project/kernel.cu",
    "/workspace/cute_kernels/gemm.cu",
    "kernels/common/ptx.cuh",
    "my.cu",
    "../include/tile.cuh",
)


def test_headers_of_libraries_are_told_from_the_user_s_files() -> None:
    assert [file for file in (*LIBRARIES, *OWN) if is_library(file)] == [*LIBRARIES]
    assert [file for file in (*LIBRARIES, *OWN) if is_wmma(file)] == [LIBRARIES[0], LIBRARIES[5]]
