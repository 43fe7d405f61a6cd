"""How far a simulation errs: written by bench/figures/savings.py, which says how. Do not edit.

Fitted to launches on an H100: 245 pairs of 100 programs.
"""

COVERAGE = 0.9  # of programs, by these intervals
CYCLES = 1.1115  # the factor by which cycles may be off, either way
# How much a saving may be off, always and per saving: from the launch before alone, and if both are simulated.
SAVED = (0.1261, 0.0000)
BOTH = (0.0765, 0.0000)
KINDS = ("ATOMS", "LDS", "LDSM", "STS")
