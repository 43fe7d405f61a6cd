"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ncu_swizzle.engines.context import Request


class Engine(StrEnum):
    auto = "auto"
    ncu = "ncu"
    emulated = "emulated"
    recorded = "recorded"


class ClockControl(StrEnum):
    none = "none"
    base = "base"
    boost = "boost"
    reset = "reset"


class CacheControl(StrEnum):
    all = "all"
    none = "none"


class ReplayMode(StrEnum):
    kernel = "kernel"
    application = "application"


def sizes(texts: list[str]) -> dict[str, int]:
    """Return ``n=2048,m=64`` and repetitions as a dictionary."""
    found = {}
    for part in (part for text in texts for part in text.split(",") if part):
        name, equals, value = part.partition("=")
        if not equals or not value.strip().isdecimal():
            raise typer.BadParameter(f"{part!r} is not NAME=SIZE, such as seq=1024")
        found[name.strip()] = int(value)
    return found


def request(
    engine: Engine,
    problem: list[str],
    clock_control: ClockControl,
    cache_control: CacheControl,
    replay_mode: ReplayMode,
    ncu: Path | None,
    timeout: float,
    nvcc: Path | None = None,
    exhaustive: bool = False,
    **more: Any,
) -> Request:
    """Return how profiles are to be had; `more` are further fields of `ncu.Options`."""
    from ncu_swizzle.engines.context import Request
    from ncu_swizzle.ncu.options import Options

    own = Options(clock_control.value, cache_control.value, replay_mode.value, **more)
    return Request(engine.value, sizes(problem), own, ncu, timeout, nvcc, exhaustive)


EngineOption = Annotated[
    Engine,
    typer.Option(
        help="Where figures come from: ncu measures, emulated computes, recorded was measured; auto: the best."
    ),
]
ProblemOption = Annotated[
    list[str], typer.Option("--problem", metavar="NAME=SIZE", help="Problem size; repeat it or use commas.")
]
NcuOption = Annotated[Path | None, typer.Option("--ncu", metavar="PATH", help="The ncu to use.")]
NvccOption = Annotated[
    Path | None, typer.Option("--nvcc", metavar="PATH", help="The compiler of --engine emulated to use.")
]
ExhaustiveOption = Annotated[
    bool, typer.Option("--exhaustive", help="Emulate every block, not one of each kind that can differ.")
]
TimeoutOption = Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Time limit of each program run.")]
JsonOption = Annotated[
    str | None, typer.Option("--json", metavar="FILE|-", help="Write everything as data; - prints that alone.")
]
MarkdownOption = Annotated[
    str | None, typer.Option("--markdown", metavar="FILE|-", help="Write a summary for a pull request; - prints it.")
]
CsvOption = Annotated[
    str | None, typer.Option("--csv", metavar="FILE|-", help="Write the table of instructions; - prints it.")
]
ClockOption = Annotated[ClockControl, typer.Option(help="As ncu's. Times under different modes do not compare.")]
CacheOption = Annotated[CacheControl, typer.Option(help="As ncu's: flush the caches before each pass, or not.")]
ReplayOption = Annotated[ReplayMode, typer.Option(help="As ncu's: repeat the kernel, or the whole program.")]
ElementOption = Annotated[int, typer.Option("--elem", metavar="BYTES", help="Size of an element.")]
SwizzleOption = Annotated[
    str | None,
    typer.Option(metavar="B,M,S", help="Swizzle<B,M,S> on elements; also bytes:B,M,S, add:B,M,S, 128B, sudoku."),
]
PadOption = Annotated[int, typer.Option(min=0, metavar="ELEMENTS", help="Unused elements after each row.")]
AccessOption = Annotated[
    str | None,
    typer.Option(metavar="ACCESS", help="row, row:16, rows:16, column, cp.async, ldmatrix, mma, OP@ROW,COLUMN, none."),
]
ThreadsOption = Annotated[int, typer.Option(min=32, max=1024, help="For expressions in tid: threads of a block.")]
