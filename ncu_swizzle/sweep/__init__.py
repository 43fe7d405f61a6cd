"""Sweeps: profile the variants of a family over several problem sizes, here or on many workers, in one table and page.

    plan → running → folder (a saved profile per point, sweep.json) → table → view → page, terminal, Markdown

Each finished point is saved, so an interrupted sweep can be resumed. Workers are processes of this machine, one per
GPU, or those of a running Dask cluster; Dask is imported only for them.
"""
