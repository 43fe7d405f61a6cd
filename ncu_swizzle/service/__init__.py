"""Calls of agents and editors, each in a process of its own that can be ended. Answers are short data."""
