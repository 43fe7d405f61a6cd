"""View data: what a report shows, with every text final and every bar width and shade computed.
Built from a `Comparison` before any markup, so that templates only lay out and tests check values instead of HTML.
"""
