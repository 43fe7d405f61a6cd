"""Driving Nsight Compute: which ncu to use, its command line, its progress, and what its failures mean.
The machine around it (driver, GPU, permissions) is looked at here too.
"""
