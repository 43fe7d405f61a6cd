"""Seeded generators of damaged and hostile files and arguments, made from real ones; see also ``bench/corpus``."""
