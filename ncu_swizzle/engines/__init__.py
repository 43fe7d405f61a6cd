"""The sources of a Profile: measured by ncu now, computed by the emulator, or read from a recording.
There is a module per engine, and `obtain` calls the right one.
"""
