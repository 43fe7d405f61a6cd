"""From a family's source to a cubin: nvcc's options, the toolchain, third-party headers, the cache of compiled kernels.
The recipe is the same whether PyCUDA or the emulated engine runs the compiler.
"""
