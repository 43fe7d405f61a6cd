"""The rule pack: its decisions, which ncu and ncu-swizzle share, and its files, which ncu and ncu-ui load.
The pack itself lies in rules/; this room is its only importer.
"""
