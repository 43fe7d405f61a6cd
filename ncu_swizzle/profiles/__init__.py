"""Profile and Comparison, the two values that everything else makes or shows, and what is derived from them.
Plain data: nothing here reads a report, runs a program or knows a screen.
"""
