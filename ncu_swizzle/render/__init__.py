"""Turn profiles and comparisons into HTML, Markdown, terminal output, CSV and JSON. Views receive data: none looks up a
kernel or measures one, and `page` alone asks `kernels.tiles` which tiles are declared for a profile's kernel.
"""
