"""The program that ncu profiles: build a kernel, check its output against the reference, launch it once or time it.
It runs in a process of its own, ``python -m ncu_swizzle.launch``; `device` is the only importer of PyCUDA.
"""
