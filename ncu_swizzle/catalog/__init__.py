"""Which kernels there are and how they are described: the shipped families, those of ncu-swizzle.toml, a user's own .cu.
Plain data; nothing here compiles, launches or measures.
"""
