"""A line of a source."""

from __future__ import annotations

Location = tuple[str, int]  # file and line
