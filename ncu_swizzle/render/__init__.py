"""Turn profiles and comparisons into HTML, Markdown, terminal output, CSV and JSON.
Everything rendered comes in as data: nothing here looks up a kernel or measures one.
"""
