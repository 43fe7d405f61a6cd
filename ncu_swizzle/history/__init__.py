"""Counts over commits: which commit brought a conflict, and runs kept in a folder. Neither needs a GPU.

commits (what git holds) → counted (one commit) → bisect (between a good and a bad one)
profiles → kept (rows) → dataset (Parquet files) → tracks (a kernel over commits) → shown (terminal, JSON), page
"""
