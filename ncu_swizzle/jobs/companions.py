"""What stands beside the kernel or program that is profiled."""

from __future__ import annotations

from dataclasses import dataclass

from ncu_swizzle.option import option

NONE, AUTO = "none", "auto"


@dataclass(frozen=True)
class Companions:
    """A baseline before it and a reference after it: a kernel, a file, a run, "none", or "auto"."""

    baseline: str = option(AUTO, "What to compare with; auto: what the catalogue names.", "NAME|FILE|RUN|none")
    reference: str = option(AUTO, "A third column; auto: the library's kernel, if it is there.", "NAME|FILE|none")
