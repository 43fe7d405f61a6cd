"""Read a .ncu-rep, byte by byte, into Profiles.
NVIDIA's own module is only used for units and SASS, in a separate process, and its answers are cached.
"""
