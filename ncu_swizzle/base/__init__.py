"""What every room may use: typed errors, files, subprocesses with a time limit, text at the borders, paths of data."""
