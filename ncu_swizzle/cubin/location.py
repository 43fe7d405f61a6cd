"""A source line."""

from __future__ import annotations

Location = tuple[str, int]  # file and line
