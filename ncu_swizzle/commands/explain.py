"""``ncu-swizzle predict``, ``banks`` and ``suggest``: a layout's wavefronts, its picture, and a better one."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle.commands import groups, output
from ncu_swizzle.commands.groups import grouped
from ncu_swizzle.commands.keywords import Only
from ncu_swizzle.engines.settings import Request
from ncu_swizzle.kernels.options import CatalogOptions, PairOptions

# ``ncu-swizzle predict``: compute wavefronts without a GPU.


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
    threads: groups.ThreadsOption = 32,
    write: Annotated[list[str], typer.Option(metavar="ACCESS", help="With a layout: see suggest --help.")] = [],  # noqa: B006
    read: Annotated[list[str], typer.Option(metavar="ACCESS", help="The same, for reads; both repeatable.")] = [],  # noqa: B006
    elem: groups.ElementOption = None,
    swizzle: groups.SwizzleOption = None,
    pad: groups.PadOption = 0,
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
    from ncu_swizzle.explain import shown
    from ncu_swizzle.explain.own_kernels import KernelQuery
    from ncu_swizzle.explain.predict import PredictQuery

    with output.progress() as progress:
        kernel = KernelQuery.of(request, own, sources, progress)
        query = PredictQuery(
            what,
            op,
            active=active,
            threads=threads,
            writes=tuple(write),
            reads=tuple(read),
            element_bytes=elem,
            swizzle=swizzle,
            pad=pad,
            profile=profile,
            kernel=kernel,
        )
        shown.show_prediction(query, Output(), json)


# ``ncu-swizzle banks``: draw which bank each element is in.


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
    elem: groups.ElementOption = None,
    swizzle: groups.SwizzleOption = None,
    pad: groups.PadOption = 0,
    access: groups.AccessOption = None,
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
    from ncu_swizzle.explain import banks as maps
    from ncu_swizzle.explain.own_kernels import BanksQuery, KernelQuery

    with output.progress() as progress:
        kernel = KernelQuery.of(how, own, sources, progress)
        query = BanksQuery(
            what=what,
            element_bytes=elem,
            swizzle=swizzle,
            pad=pad,
            access=access,
            show=show.value,
            row=row,
            request=request,
            banks=banks,
            kernel=kernel,
        )
        maps.show(query, Output(), html, svg, json)


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
    elem: groups.ElementOption = None,
    threads: groups.ThreadsOption = 32,
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
    from ncu_swizzle.explain import suggest as answer
    from ncu_swizzle.explain.own_kernels import KernelQuery
    from ncu_swizzle.smem.judge import Constraints

    limits = Constraints(max_bytes, tma, copies, own.arch.rstrip("af") or Constraints.arch)
    with output.progress() as progress:
        kernel = KernelQuery.of(request, own, sources, progress)
        query = answer.SuggestQuery(
            what,
            tuple(write),
            reads=tuple(read),
            element_bytes=elem,
            threads=threads,
            constraints=limits,
            kernel=kernel,
        )
        answer.show(query, Output(), code.value, json)
