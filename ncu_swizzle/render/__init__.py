"""View data and what shows it: HTML, Markdown, the terminal, CSV, JSON.
Profiles and comparisons come in, text goes out; nothing is looked up or measured.
"""
