"""Damaged and hostile files, made from real ones by a seeded generator, and what becomes of each in a command.

    worker.prepare()
    for case in kinds.cases(10_000, seed=1):
        outcome = worker.outcome(case)

Tests run a few, ``bench/damage.py`` all. An outcome is `refused` (a message and a documented exit code) or `read`, and
carries violations: tracebacks, hangs, code that ran, raw control characters, losses without a word.
"""
