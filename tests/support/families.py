"""A family.toml, as short as it can be."""

from __future__ import annotations

FAMILY = """
[family]
name = "toy"
title = "Toy"
reference = "somewhere"
[problem]
n = { default = 8, multiple = 4 }
[launch]
grid = ["n // 4", "1", "1"]
block = [32, 1, 1]
[[argument]]
name = "x"
dtype = "float32"
shape = ["n", "n"]
[[variant]]
name = "toy-plain"
title = "Plain"
lesson = "Nothing."
"""
