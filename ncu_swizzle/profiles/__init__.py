"""Profile and Comparison, the two values that everything else makes or shows, and what is derived from them.
They are plain data: nothing here reads a report, runs a program or draws anything.
"""
