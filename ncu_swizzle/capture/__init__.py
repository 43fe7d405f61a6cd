"""Running a program once and keeping what it launches: a C library that CUDA loads into it, or a stand-in for the CUDA
runtime where there is no GPU. docs/launches.md describes the file of launches.
"""
