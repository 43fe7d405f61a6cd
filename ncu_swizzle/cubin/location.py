"""A source line."""

from __future__ import annotations

from ncu_swizzle.validate import Count

Location = tuple[str, Count]  # file and line
