"""Runs kept in a folder over commits, and where their counts changed. None of it needs a GPU.

profiles → kept (rows) → dataset (Parquet files) → tracks (a kernel over commits) → shown (terminal, JSON), page
"""
