"""The options that name a new build of captured kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.errors import UsageError
from ncu_swizzle.option import option

LAUNCHES = ".launches"  # the suffix of a file with captured launches
EXAMPLE = "--rebuild 'nvcc -O3 -lineinfo -arch=sm_90 app.cu'"


@dataclass(frozen=True)
class NewBuild:
    """What takes the place of the cubins in a launches file."""

    cubin: tuple[Path, ...] = option((), "Replay captured launches with this cubin or PTX; repeatable.", "FILE")
    rebuild: str = option("", "Replay captured launches with what this nvcc command builds.", "COMMAND")

    @property
    def given(self) -> str:
        """The option that was typed; empty without one."""
        return "--cubin" if self.cubin else "--rebuild" if self.rebuild else ""

    def refuse_without_launches(self, entries: Sequence[str]) -> None:
        """Raise UsageError if a new build is given and none of these is a launches file."""
        if self.given and not any(entry.endswith(LAUNCHES) for entry in entries):
            raise UsageError(
                f"{self.given} is for launches files, and {', '.join(entries)} is none",
                "ncu-swizzle capture -o app.launches -- ./app writes one",
            )
