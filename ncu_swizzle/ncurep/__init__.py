"""From the bytes of a .ncu-rep to Profiles.
NVIDIA's own module is asked only for units and SASS, in a process of its own, and its answers are cached.
"""
