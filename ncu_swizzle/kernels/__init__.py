"""Kernels: which exist, how they are described, from their source to a cubin, and the program that launches them.

    kernels/NAME/family.toml              `catalog`: the shipped families, and the folders named by --catalog
    ncu-swizzle.toml, [kernel.NAME]       `catalog` finds and reads the file, `project` reads its entries
    profile my.cu --grid … --arg …        `options`, here and from Python

Each ends up as a `family.Family`; a name on the command line becomes a `family.Target`: one kernel at one size. The
recipe for nvcc (`recipe`, `toolchain`) is the same whether PyCUDA or the emulated engine runs it. ``python -m
ncu_swizzle.kernels`` is the process that ncu profiles; `device` is the only importer of PyCUDA.
"""
