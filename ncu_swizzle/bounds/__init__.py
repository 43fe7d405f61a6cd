"""Limits on what hostile input may cost: processor time, users' regular expressions, quoted output. What exceeds one
raises an error that names the limit, or is cut with a note.
"""
