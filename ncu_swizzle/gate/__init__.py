"""The CI gate: `check` compares profiles with limits and a saved baseline, `lint` emulates kernels and judges each
line. ``docs/ci.md`` is its user's manual.

    profiles, kernels → judge, linting → Verdict → reporting (terminal, JSON, JUnit, SARIF, GitHub)
"""
