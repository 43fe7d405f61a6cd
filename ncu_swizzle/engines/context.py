"""What every engine is handed along with its target: how profiles are made, where files go, who follows progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ncu_swizzle.ncu.options import Options
from ncu_swizzle.option import option
from ncu_swizzle.profiles.engine import EMULATED, NCU, RECORDED, Engine

Progress = Callable[[str, float], None]  # what is being profiled, percent of ncu's passes or of the emulated blocks
Percent = Callable[[float], None]


def silent(name: str, percent: float) -> None:
    """Follow no progress."""


@dataclass(frozen=True)
class Request:
    """How profiles are to be made, as the command line says it."""

    engine: str = option(
        "auto",
        "Where numbers come from: ncu measures, emulated computes, recorded was measured; auto: the best.",
        choices=("auto", NCU, EMULATED, RECORDED),
    )
    problem: Mapping[str, int] = option({}, "Problem size; repeat it or use commas.", "NAME=SIZE")
    options: Options = field(default_factory=Options)
    ncu: Path | None = option(None, "The ncu to use.", "PATH")
    timeout_s: float = option(600.0, "Time limit of each program run.", "SECONDS", ("--timeout",), minimum=1)
    nvcc: Path | None = option(None, "The compiler of --engine emulated to use.", "PATH")
    exhaustive: bool = option(False, "Emulate every block, not one of each kind that can differ.")


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
