"""The gate: `ncu-swizzle check` holds profiles against limits and a baseline; ``docs/ci.md`` describes it.

    config → policy ─┐
    profiles ────────┼→ judge → Verdict → lines, junit, sarif, github, data
    baseline ────────┘

`checking` does it all for the command.
"""
