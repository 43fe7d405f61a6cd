"""Which kernels exist and how they are described: the shipped families, those of ncu-swizzle.toml, your own .cu.
This is plain data; nothing here compiles, launches or measures.

A kernel is described in one of three places. Each ends up as a `family.Family`, and all of them as one
`collection.Catalog`, put together by `user_kernels`:

    kernels/NAME/family.toml              `collection`: the shipped families, and the folders named by --catalog
    ncu-swizzle.toml, [kernel.NAME]       `project` finds and reads the file, `project_kernels` reads its entries
    profile my.cu --grid … --arg …        `kernel_options`: the options, here and from Python

The last two first become a `kernel_spec.KernelSpec`; `kernel_spec.family` checks it and returns the family. A name on
the command line then becomes a `target.Target`: one kernel at one size.
"""
