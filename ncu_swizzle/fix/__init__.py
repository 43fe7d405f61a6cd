"""``ncu-swizzle fix``: rewrite a kernel so that a shared array is free of bank conflicts, and prove that it still
means the same. What cannot be proved is not offered.
"""
