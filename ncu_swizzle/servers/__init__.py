"""Calls of agents (MCP) and editors (LSP), each in its own process that can be ended. Answers are short data."""
