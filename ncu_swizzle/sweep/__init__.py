"""Sweeps: variants of a family over sizes of its problem; one table, one page, and every point kept when it is done.

plan → running → folder (a saved profile per point, sweep.json) → table → view → page, terminal, markdown
"""
