"""Damaged and hostile files, each given to a command, and what becomes of it: the machinery of ``bench/damage.py``.

    worker.prepare()
    for case in kinds.cases(10_000, seed=1):
        outcome = worker.outcome(case)

The files are real ones, changed by seeded generators: those that tests use as well are in tests/support/corpus. An
outcome is `refused` (a message and a documented exit code) or `read`, and carries violations: tracebacks, hangs, code
that ran, raw control characters, losses without a word.
"""
