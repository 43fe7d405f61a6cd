"""The program that ncu profiles: build a kernel, check its output against the reference, launch it once or time it.
It runs as a separate process, ``python -m ncu_swizzle.launch``, and `device` is the only importer of PyCUDA.
"""
