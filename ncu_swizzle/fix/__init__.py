"""``ncu-swizzle fix``: rewrite a kernel so that its shared arrays are free of bank conflicts. What cannot be proved is
not offered.
"""
