"""Options that several commands share and that are not fields of a dataclass."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ncu_swizzle.engines.context import Request

if TYPE_CHECKING:
    from ncu_swizzle.ncu.options import Options


def with_options(request: Request, options: Options, **more: Any) -> Request:
    """Return the request with these ncu options; `more` overrides fields of theirs."""
    return replace(request, options=replace(options, **more))


ElementOption = Annotated[
    int | None,
    typer.Option("--elem", metavar="BYTES", help="Element size; default 4, in a kernel's tile its narrowest access."),
]
SwizzleOption = Annotated[
    str | None,
    typer.Option(metavar="B,M,S", help="Swizzle<B,M,S> on elements; also bytes:B,M,S, add:B,M,S, 128B, sudoku."),
]
PadOption = Annotated[int, typer.Option(min=0, metavar="ELEMENTS", help="Unused elements after each row.")]
AccessOption = Annotated[
    str | None,
    typer.Option(metavar="ACCESS", help="row, row:16, rows:16, column, cp.async, ldmatrix, mma, OP@ROW,COLUMN, none."),
]
ThreadsOption = Annotated[int, typer.Option(min=32, max=1024, help="For expressions in tid: threads per block.")]
