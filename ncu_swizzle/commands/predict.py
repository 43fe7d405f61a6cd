"""``ncu-swizzle predict``: compute wavefronts without a GPU."""

from __future__ import annotations

from typing import Annotated

import typer

from ncu_swizzle.catalog.kernel_options import CatalogOptions, PairOptions
from ncu_swizzle.commands import options, output
from ncu_swizzle.commands.groups import Only, grouped
from ncu_swizzle.engines.context import Request


@grouped
def predict(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="A kernel, a .cu, a layout, a CSV file, or an expression.")
    ],
    request: Annotated[Request, Only("problem", "nvcc", "exhaustive", "timeout_s", "no_cache")],
    own: PairOptions,
    sources: CatalogOptions,
    op: Annotated[str | None, typer.Option(metavar="OP", help="For an expression or a CSV: ld.shared.b32 …")] = None,
    active: Annotated[str | None, typer.Option(metavar="EXPRESSION", help="The active lanes: lane < 8.")] = None,
    threads: options.ThreadsOption = 32,
    write: Annotated[list[str], typer.Option(metavar="ACCESS", help="With a layout: see suggest --help.")] = [],  # noqa: B006
    read: Annotated[list[str], typer.Option(metavar="ACCESS", help="The same, for reads; both repeatable.")] = [],  # noqa: B006
    elem: options.ElementOption = None,
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
    ncu-swizzle predict my.cu --grid 128 --block 256 --arg x=float32[n]:random --problem n=4096
    ncu-swizzle predict my.cu --swizzle 3,4,3 --elem 1      as ncu-swizzle.toml describes it

    A kernel of your own (.cu, cubin, PTX, or of ncu-swizzle.toml) is emulated, described as for ncu-swizzle profile;
    an emulated run's folder or profile holds its addresses.

    Each row of a CSV file is a request: 32 byte addresses, empty for inactive lanes.
    """
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.model import predict_shown
    from ncu_swizzle.model.own_kernels import KernelQuery
    from ncu_swizzle.model.predict import PredictQuery

    with output.progress() as progress:
        kernel = KernelQuery(request, own.described(request.problem), sources, progress)
        query = PredictQuery(what, op, active, threads, tuple(write), tuple(read), elem, swizzle, pad, profile, kernel)
        predict_shown.show(query, Output(), json)
