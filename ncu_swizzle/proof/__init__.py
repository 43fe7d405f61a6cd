"""Prove that a rewritten kernel means the same as before and is free of its conflict: by traces and values without a
GPU, by launches on one. A claim that cannot be checked is unknown, with the reason.
"""
