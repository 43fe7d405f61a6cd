"""``ncu-swizzle predict``: compute wavefronts without a GPU."""

from __future__ import annotations

from typing import Annotated

import typer

from ncu_swizzle.catalog.kernel_options import CatalogOptions
from ncu_swizzle.commands import options
from ncu_swizzle.commands.groups import Only, grouped
from ncu_swizzle.engines.context import Request


@grouped
def predict(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="A kernel, a layout, a CSV file, or an expression.")],
    request: Annotated[Request, Only("problem")],
    sources: CatalogOptions,
    op: Annotated[str | None, typer.Option(metavar="OP", help="For an expression or a CSV: ld.shared.b32 …")] = None,
    active: Annotated[str | None, typer.Option(metavar="EXPRESSION", help="The active lanes: lane < 8.")] = None,
    threads: options.ThreadsOption = 32,
    write: Annotated[list[str], typer.Option(metavar="ACCESS", help="With a layout: see suggest --help.")] = [],  # noqa: B006
    read: Annotated[list[str], typer.Option(metavar="ACCESS", help="The same, for reads; both repeatable.")] = [],  # noqa: B006
    elem: options.ElementOption = 4,
    swizzle: options.SwizzleOption = None,
    pad: options.PadOption = 0,
    profile: Annotated[
        str | None, typer.Option(metavar="FILE", help="Compare with this report or profile instead of the recording.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Compute the wavefronts of accesses, next to ncu's counts.

    \b
    ncu-swizzle predict kernel1
    ncu-swizzle predict "(64,64):(64,1)" --elem 2 --read ldmatrix
    ncu-swizzle predict "tid * 128" --op ld.shared.b32 --active "lane < 8"
    ncu-swizzle predict lanes.csv --op st.shared.v4.b32

    Each row of a CSV file is a request: 32 byte addresses, empty for inactive lanes.
    """
    from ncu_swizzle.catalog import user_kernels
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.model import predict as answer

    kernels = user_kernels.everything(sources.catalog, sources.config, trust=sources.trust)
    query = answer.PredictQuery(
        what, op, active, threads, tuple(write), tuple(read), elem, swizzle, pad, request.problem, profile, kernels
    )
    answer.show(query, Output(), json)
