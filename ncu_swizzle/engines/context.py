"""What every engine is handed along with its target: how profiles are made, where files go, who follows progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ncu_swizzle.ncu.options import Options
from ncu_swizzle.profiles.result import Engine

Progress = Callable[[str, float], None]  # what is being profiled, percent of ncu's passes or of the emulated blocks
Percent = Callable[[float], None]


def silent(name: str, percent: float) -> None:
    """Follow no progress."""


@dataclass(frozen=True)
class Request:
    """How profiles are to be made, as the command line says it."""

    engine: str = "auto"
    problem: Mapping[str, int] = field(default_factory=dict)
    options: Options = field(default_factory=Options)
    ncu: Path | None = None
    timeout_s: float = 600.0
    nvcc: Path | None = None  # the emulated engine's compiler
    exhaustive: bool = False  # the emulated engine runs every block


@dataclass(frozen=True)
class Context:
    """A request with its engine chosen, the folder that reports and facts go to, and who follows progress."""

    request: Request
    engine: Engine
    folder: Path
    progress: Progress = silent

    def percent_of(self, name: str) -> Percent:
        """Return what takes the progress of one kernel or program, in percent."""
        return lambda percent: self.progress(name, percent)
