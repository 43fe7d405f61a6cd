"""Damaged and hostile files, each given to a command, and what becomes of it: the machinery of ``damage.py``.

    worker.prepare()
    for case in kinds.cases(10_000, seed=1):
        outcome = worker.outcome(case)

The files are real ones (`originals`), changed by seeded generators that tests of the rooms use as well: `hostile`,
`bytewise`, `trees` of JSON and TOML, `frames` of reports, `binaries`. An outcome is `refused` (a message and a
documented exit code) or `read`, and carries violations: tracebacks, hangs, code that ran, raw control characters,
losses without a word.

"""
