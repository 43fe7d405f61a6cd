"""The commands, and the same as functions: parse, resolve, obtain profiles, compare, print or return.

What is slow to import is imported when a command runs, so that help and usage errors are instant.
"""
