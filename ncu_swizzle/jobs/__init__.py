"""What a command does from beginning to end: obtain profiles, compare them, write the run's folder.
One module per job; a command parses, calls one, and prints its result.
"""
