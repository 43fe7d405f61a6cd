"""``ncu-swizzle suggest``: find the cheapest mapping without conflicts."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from ncu_swizzle.catalog.kernel_options import CatalogOptions, PairOptions
from ncu_swizzle.commands import options, output
from ncu_swizzle.commands.groups import Only, grouped
from ncu_swizzle.engines.context import Request


class CodeLanguage(StrEnum):
    both = "both"
    cuda = "cuda"
    cute = "cute"
    none = "none"


@grouped
def suggest(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="A layout, a kernel, or a .cu, cubin or PTX file.")],
    request: Annotated[Request, Only("problem", "nvcc", "exhaustive", "timeout_s", "no_cache")],
    own: PairOptions,
    sources: CatalogOptions,
    write: Annotated[list[str], typer.Option(metavar="ACCESS", help="How the tile is written; repeatable.")] = [],  # noqa: B006
    read: Annotated[list[str], typer.Option(metavar="ACCESS", help="How the tile is read; repeatable.")] = [],  # noqa: B006
    elem: options.ElementOption = None,
    threads: options.ThreadsOption = 32,
    max_bytes: Annotated[int | None, typer.Option(min=0, help="At most this many extra bytes per tile.")] = None,
    tma: Annotated[bool, typer.Option("--tma", help="TMA must be able to write it.")] = False,
    copies: Annotated[int, typer.Option(min=1, help="Number of such tiles per block.")] = 1,
    code: Annotated[CodeLanguage, typer.Option(help="The code to print.")] = CodeLanguage.both,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Find the cheapest mapping that makes all accesses conflict-free.

    \b
    ncu-swizzle suggest "(64,64):(64,1)" --elem 2 --write rows:16 --read ldmatrix
    ncu-swizzle suggest "(32,32):(32,1)" --write row --read column
    ncu-swizzle suggest transpose-plain
    ncu-swizzle suggest my.cu --grid 128 --block 256 --arg x=float32[n]:random --problem n=4096

    A kernel of your own (.cu, cubin, PTX, or of ncu-swizzle.toml) is emulated, described as for ncu-swizzle profile,
    and every mapping is tried on its own addresses; an emulated run's folder or profile holds them.

    \b
    Accesses, for --write and --read:
      row, column       a request per row or column, one element per lane
      row:16            16 bytes per lane; rows:16 continues in the next row
      cp.async          16 bytes per lane from global memory; cp.async:4
      ldmatrix, stmatrix, ldmatrix.x2.trans
      mma               accumulators of mma.m16n8, two elements per lane
      OP@ROW,COLUMN     such as ld.shared.b32@tid%32,tid/32 with --threads
    """
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.model import suggest as answer
    from ncu_swizzle.model.own_kernels import KernelQuery
    from ncu_swizzle.smem.judge import Constraints

    limits = Constraints(max_bytes, tma, copies, own.arch.rstrip("af") or Constraints.arch)
    with output.progress() as progress:
        kernel = KernelQuery(request, own.described(request.problem), sources, progress)
        query = answer.SuggestQuery(what, tuple(write), tuple(read), elem, threads, limits, kernel)
        answer.show(query, Output(), code.value, json)
