"""The profiles shown next to that of a kernel or program."""

from __future__ import annotations

from dataclasses import dataclass

from ncu_swizzle.option import option

NONE, AUTO = "none", "auto"


@dataclass(frozen=True)
class Companions:
    """A baseline and a reference, each a kernel, a file, a run, "none", or "auto"."""

    baseline: str = option(AUTO, "What to compare with; auto: the catalogue's baseline.", "NAME|FILE|RUN|none")
    reference: str = option(AUTO, "A third column; auto: the library's kernel, if available.", "NAME|FILE|none")
