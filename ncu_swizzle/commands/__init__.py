"""The commands, one thin file each: parse, call one function, print.
Anything slow to import is imported when the command runs, so that help and usage errors are instant.
"""
