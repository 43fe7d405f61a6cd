"""Kernels: which exist, how they are described, from their source to a cubin, and the program that launches them.

    words on a command line              `naming`: the one door, `resolve`; a word becomes a `family.Target`
    kernels/NAME/family.toml             `catalog`: the shipped families
    ncu-swizzle.toml, [kernel.NAME]      `project`: the file, and its kernels
    profile my.cu --grid … --arg …       `options`, here and from Python

Typed options and a project's table give the same `options.LaunchOptions`; with its source that is a
`project.KernelSpec`, from which `build` makes a `family.Family`. A `family.Target` is one kernel of it at one size, its
launch evaluated. The recipe for nvcc (`toolchain`) is the same whether PyCUDA or the emulated engine runs
it. ``python -m ncu_swizzle.kernels`` is the process that ncu profiles; `device` is the only importer of PyCUDA.
"""
