"""Sweeps: profile the variants of a family over several problem sizes and show them in one table and one page. Each
finished point is saved, so an interrupted sweep can be resumed.

    plan → running → folder (a saved profile per point, sweep.json) → table → view → page, terminal, Markdown
"""
