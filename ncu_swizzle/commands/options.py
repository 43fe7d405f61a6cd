"""Options that several commands share and that are no fields of a dataclass of theirs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ncu_swizzle.engines.context import Request

if TYPE_CHECKING:
    from ncu_swizzle.ncu.options import Options


def with_options(request: Request, options: Options, **more: Any) -> Request:
    """Return the request with ncu's options; `more` are further fields of these."""
    return replace(request, options=replace(options, **more))


NcuOption = Annotated[Path | None, typer.Option("--ncu", metavar="PATH", help="The ncu to use.")]
JsonOption = Annotated[
    str | None, typer.Option("--json", metavar="FILE|-", help="Write everything as data; - prints that alone.")
]
DataOption = Annotated[bool, typer.Option("--json", help="Print everything as data.")]
ProblemOption = Annotated[
    list[str], typer.Option("--problem", metavar="NAME=SIZE", help="Problem size; repeat it or use commas.")
]
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
