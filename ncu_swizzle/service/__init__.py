"""Calls that a coding agent or an editor makes, each in a process of its own that can be ended. Answers are short data."""
