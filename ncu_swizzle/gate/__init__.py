"""The CI gate: `check` compares profiles with limits and a saved baseline, `lint` emulates kernels and judges each
line. ``docs/ci.md`` is its user's manual.

    config → policy ──────┐
    profiles, lint_inputs ┼→ judge, linting → Verdict → reporting (terminal, JSON), junit, sarif, github
    baseline ─────────────┘
"""
