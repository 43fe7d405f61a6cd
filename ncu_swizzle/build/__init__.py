"""From a family's source to a cubin: nvcc's options, the toolchain, other projects' headers, the cache of compiled kernels.
Whoever runs the compiler (PyCUDA on a GPU, or the emulated engine), the recipe is this one.
"""
