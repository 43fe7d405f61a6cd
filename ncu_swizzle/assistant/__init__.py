"""The tools for coding agents, over the Model Context Protocol. Each tool is one call of `service`."""
