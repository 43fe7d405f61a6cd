"""Declares, by hand, the shared-memory tiles of the shipped kernels and every access to them, one module per family.
Tests compare what the declarations predict with the recordings.
"""
