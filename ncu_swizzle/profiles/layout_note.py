"""What the compiler of a kernel in Python says of accesses with conflicts: saved with the profile."""

from __future__ import annotations

from dataclasses import dataclass

from ncu_swizzle.validate import Count


@dataclass(frozen=True)
class LayoutNote:
    """A sentence on the accesses at `offsets`: their operation, its layouts, and what changes them.

    With `explicit` layouts, which the author chose, a swizzle that was tried can be used.
    """

    text: str
    offsets: tuple[Count, ...]
    explicit: bool = False
