"""Files of captured launches: what a program launched, with the cubins, to be replayed anywhere.
docs/launches.md describes the file.
"""
