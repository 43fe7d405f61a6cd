"""Driving Nsight Compute: which ncu to use, its command line, its progress, and what its failures mean. Queries about
the machine (driver, GPU, permissions, other programs) live here too.
"""
