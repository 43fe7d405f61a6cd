"""The rule pack in rules/: evaluate its rules, which also run inside ncu, and install its files for ncu and ncu-ui.
Only this room imports the pack.
"""
