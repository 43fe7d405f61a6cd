"""What every engine gets along with its target: the request, the output folder, and the progress callback."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ncu_swizzle.build.build_option import NewBuild
from ncu_swizzle.ncu.options import Options
from ncu_swizzle.option import option, options_of
from ncu_swizzle.profiles.engine import EMULATED, NCU, RECORDED, Engine


class Done(float):
    """A percentage, and what it stands for in words; a callback that wants the number alone needs no change."""

    words: str = ""
    aside: str = ""  # to be said once, above all bars

    @classmethod
    def of_blocks(cls, covered: int, blocks: int, instructions: int) -> Done:
        """Return how far an emulation is: the blocks accounted for, and the instructions that warps have issued."""
        done = cls(100 * covered / max(blocks, 1))
        done.words = f"{covered:,} of {blocks:,} blocks, {instructions:,} instructions"
        return done


Progress = Callable[[str, float], None]  # what is being profiled, percent of ncu's passes or of the emulated blocks
Percent = Callable[[float], None]


def silent(name: str, percent: float) -> None:
    """Ignore progress."""


@dataclass(frozen=True)
class Request:
    """How to make profiles, as given on the command line."""

    engine: str = option(
        "auto",
        "Source of the numbers: measured by ncu, emulated, or recorded; auto: the best available.",
        choices=("auto", NCU, EMULATED, RECORDED),
    )
    problem: Mapping[str, int] = option({}, "Problem size; repeatable, or separate with commas.", "NAME=SIZE")
    options: Options = field(default_factory=Options)
    ncu: Path | None = option(None, "The ncu to use.", "PATH")
    timeout_s: float = option(600, "Time limit for each program run.", "SECONDS", ("--timeout",), minimum=1)
    nvcc: Path | None = option(None, "The compiler to use for --engine emulated.", "PATH")
    exhaustive: bool = option(False, "Emulate every block, not just one of each distinct class.")
    no_cache: bool = option(False, "Compile and emulate again, and keep nothing for the next time.")
    build: NewBuild = NewBuild()  # of captured launches


# What Python's functions take beside their own parameters, which say the rest in their words.
KEYWORDS = tuple(name for name in options_of(Request) if name not in ("engine", "problem", "ncu", "timeout_s"))


@dataclass(frozen=True)
class Context:
    """A request, the engine chosen for it, the folder for reports and facts, and the progress callback."""

    request: Request
    engine: Engine
    folder: Path
    progress: Progress = silent

    def percent_of(self, name: str) -> Percent:
        """Return the progress callback of one kernel or program, in percent."""
        return lambda percent: self.progress(name, percent)
