"""What a report shows, ready to be laid out: every text is final, every width and shade is computed.
Built from a `Comparison` before any markup exists, so that templates only lay out and tests read figures, not HTML.
"""
