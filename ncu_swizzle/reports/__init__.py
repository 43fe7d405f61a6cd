"""Profile and Comparison, and how they are read: a .ncu-rep byte by byte, run folders, frames, pairing by address.

NVIDIA's own module is only used for units and SASS, in a separate process whose answers are cached. The rule pack in
rules/ is evaluated here. Nothing else in this room runs a program, and nothing draws.
"""
