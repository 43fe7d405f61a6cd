"""What a command does from start to finish: obtain profiles, compare them, write the run's folder.
There is a module per job; a command parses its options, calls a job, and prints the result.
"""
