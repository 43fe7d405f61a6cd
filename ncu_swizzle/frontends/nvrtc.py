def handles(t): return False
