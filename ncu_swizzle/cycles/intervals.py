"""How far a simulation errs: written by bench/savings.py, which says how. Do not edit.

Fitted to launches on an H100: 127 pairs of 100 programs.
"""

COVERAGE = 0.9  # of programs, by these intervals
CYCLES = 1.1075  # the factor by which cycles may be off, either way
SAVED = (0.1467, 0.0000)  # how much a saving may be off: always, and per saving
BOTH = (0.0735, 0.0000)  # the same, of two kernels that are both simulated
KINDS = ("ATOMS", "LDS", "LDSM", "STS")
