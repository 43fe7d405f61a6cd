"""The sources of a Profile: measured by ncu now, computed by the emulator, or read from a recording or a capture.

Driving ncu lives here: its command line, its progress, and what its failures mean.
"""
