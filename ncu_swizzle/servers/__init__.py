"""Calls of agents (MCP) and editors (LSP), each in a process of its own that can be ended. Answers are short data."""
