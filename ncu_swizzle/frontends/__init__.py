"""Kernels written in Python, compiled by their own compiler: one module per language, which alone imports its library.
A file is imported and its function compiled in a child process, `python -m ncu_swizzle.frontends`.
"""
