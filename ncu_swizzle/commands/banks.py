"""``ncu-swizzle banks``: draw which bank each element is in."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle.catalog.kernel_options import CatalogOptions, PairOptions
from ncu_swizzle.commands import options, output
from ncu_swizzle.commands.groups import Only, grouped
from ncu_swizzle.engines.context import Request


class Show(StrEnum):
    map = "map"
    phases = "phases"
    bits = "bits"
    places = "places"


@grouped
def banks(
    what: Annotated[
        str,
        typer.Argument(help="A layout, a kernel, a .cu, or: xor, sudoku, phases, m16n8k8, m16n8k16.", metavar="WHAT"),
    ],
    how: Annotated[Request, Only("problem", "nvcc", "exhaustive", "timeout_s", "no_cache")],
    own: PairOptions,
    sources: CatalogOptions,
    elem: options.ElementOption = None,
    swizzle: options.SwizzleOption = None,
    pad: options.PadOption = 0,
    access: options.AccessOption = None,
    show: Annotated[
        Show, typer.Option(help="The banks; which lanes go together; addresses in bits; each element's place.")
    ] = Show.map,
    row: Annotated[int | None, typer.Option(help="With --show bits: only this row.")] = None,
    request: Annotated[int | None, typer.Option(help="With --show phases: this request instead of the worst.")] = None,
    banks: Annotated[int, typer.Option(min=1, help="Number of banks; other than 32 for a toy memory.")] = 32,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the maps as an HTML page.")] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the maps as an SVG picture.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the maps as JSON.")] = False,
) -> None:
    """Draw the bank map of a layout, before and after a swizzle.

    \b
    ncu-swizzle banks "(8,8):(1,8)" --swizzle 3,2,3
    ncu-swizzle banks "(64,64):(64,1)" --elem 2 --swizzle 128B --access ldmatrix
    ncu-swizzle banks "(32,32):(32,1)" --pad 1 --access column
    ncu-swizzle banks "(8,8):(8,1)" --swizzle bytes:3,2,3 --show bits
    ncu-swizzle banks transpose-plain
    ncu-swizzle banks "box(64,64)+k-major(64,16,1024)" --swizzle 128B
    ncu-swizzle banks my.cu --grid 128 --block 256 --arg x=float32[n]:random --problem n=4096

    A kernel of your own (.cu, cubin, PTX, or of ncu-swizzle.toml) is emulated, described as for ncu-swizzle profile:
    its worst access, as it is and under the mapping that ncu-swizzle suggest finds, or under --swizzle or --pad.

    "box(ROWS,COLUMNS)" draws where TMA puts a box; "k-major(ROWS,LBO,SBO)" and "mn-major(ROWS,LBO,SBO)", what wgmma
    reads through a descriptor.

    Counts are wavefronts, ACTUAL/IDEAL; * marks the cells that conflict.
    """
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.model import banks as maps
    from ncu_swizzle.model.own_kernels import KernelQuery
    from ncu_swizzle.model.subject import BanksQuery

    with output.progress() as progress:
        kernel = KernelQuery(how, own.described(how.problem), sources, progress)
        query = BanksQuery(what, elem, swizzle, pad, access, show.value, row, request, banks, kernel)
        maps.show(query, Output(), html, svg, json)
