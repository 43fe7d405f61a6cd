"""The tools of ncu-swizzle for coding agents, over the Model Context Protocol."""
