import nowhere_installed  # noqa: F401

NCU_SWIZZLE = {"turn": {"grid": 1, "args": ["x=float32[4]"]}}
