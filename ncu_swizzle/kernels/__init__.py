"""Kernels: which exist, how they are described, from their source to a cubin, and the program that launches them.

    words on a command line              `naming`: the one door, `resolve`; a word becomes a `family.Target`
    what is described, as families       `descriptions`: of ours, of a project, of a file, of the command line
    kernels/NAME/family.toml             `catalog`: the shipped families
    ncu-swizzle.toml, [kernel.NAME]      `project`: the file, and its kernels
    profile my.cu --grid … --arg …       `options`, here and from Python

A launch is three records: as typed, by options or in a project's table, `options.LaunchOptions`, which a
`project.KernelSpec` holds with its source; as described, the expressions of the `family.Family` that `build` makes of
that; as launched, the numbers of a `family.Target`, one kernel of a family at one size. The recipe for nvcc
(`toolchain`) is the same whether PyCUDA or the emulated engine runs it. ``python -m ncu_swizzle.kernels`` is the
process that ncu profiles; `launching` is the only importer of PyCUDA.
"""
