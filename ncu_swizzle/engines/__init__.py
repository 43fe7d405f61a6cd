"""Where a Profile comes from: measured by ncu now, computed by the emulator, or recalled from a recording.
One module per engine, and `obtain`, which goes to the right one.
"""
