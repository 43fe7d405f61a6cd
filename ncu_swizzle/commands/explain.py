"""``ncu-swizzle explain`` and ``report``: show banks, wavefronts and mappings; and profiles side by side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncu_swizzle.base import codes, pool
from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.base.texts import option
from ncu_swizzle.commands import output
from ncu_swizzle.commands.groups import Emulating, Selection, grouped, with_options
from ncu_swizzle.engines.settings import Options, Request
from ncu_swizzle.explain.query import ExplainQuery, KernelQuery
from ncu_swizzle.kernels.options import CatalogOptions, PairOptions
from ncu_swizzle.reports.options import Formats, PageFormats

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class DrawnFormats(PageFormats):
    """The formats of an explanation."""

    svg: str = option("", "Write what is drawn as an SVG picture.", "FILE|-")


@grouped
def explain(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="A layout, a kernel, a file, a line FILE:N, an expression, a code.")
    ],
    asked: ExplainQuery,
    formats: DrawnFormats,
    request: Emulating,
    own: PairOptions,
    sources: CatalogOptions,
) -> None:
    """Explain a layout, a kernel, a line or a code: banks and mappings.

    \b
    ncu-swizzle explain "(8,8):(1,8)" --swizzle 3,2,3   a layout, before and after
    ncu-swizzle explain "(64,64):(64,1)" --elem 2 --write rows:16 --read ldmatrix
    ncu-swizzle explain my.cu                           as ncu-swizzle.toml has it
    ncu-swizzle explain my.cu:42 --show mapping         a line, with code to paste
    ncu-swizzle explain kernel1                         one of the catalogue
    ncu-swizzle explain "tid * 128" --op ld.shared.b32  one access of a warp
    ncu-swizzle explain SW001                           a code; codes: all of them
    \f
    A kernel of your own (.cu, cubin, PTX, or of ncu-swizzle.toml) is emulated, described as for ncu-swizzle profile; an
    emulated run's folder or profile holds its addresses. Its accesses are counted by source line, the worst one is
    drawn, and every mapping is tried on its own addresses: the cheapest one that frees all of them is named.
    Wavefronts of the catalogue's kernels are compared with ncu's.

    \b
    ACCESS, for --write and --read:
      row, column       a request per row or column, one element per lane
      row:16            16 bytes per lane; rows:16 continues in the next row
      cp.async          16 bytes per lane from global memory; cp.async:4
      ldmatrix, stmatrix, ldmatrix.x2.trans
      mma               accumulators of mma.m16n8, two elements per lane
      OP@ROW,COLUMN     such as ld.shared.b32@tid%32,tid/32 with --threads

    \b
    Other things to explain:
      "box(ROWS,COLUMNS)"                                  where TMA puts a box
      "k-major(ROWS,LBO,SBO)", "mn-major(ROWS,LBO,SBO)"    what wgmma reads through a descriptor
      m16n8k8, m16n8k16                                    fragments of mma

    Counts are wavefronts, ACTUAL/IDEAL; * marks what conflicts.
    """
    from ncu_swizzle.commands.console import Output

    if codes.is_code(what):
        if formats.named:
            raise UsageError(f"{what} has a page, which is printed alone", f"omit --{next(iter(formats.named))}")
        _print_page(codes.page(what), Output())
        return
    from ncu_swizzle.explain import banks, explained

    if picture := banks.PICTURES.get(what):
        if formats.named:
            raise UsageError(f"{what} is drawn on the terminal only", f"omit --{next(iter(formats.named))}")
        picture(Output())
        return
    with output.progress() as progress:
        query = replace(asked, what=what, kernel=KernelQuery.of(request, own, sources, progress))
        answer = explained.explanation(query)
    makers = {
        "json": lambda: explained.to_json(query, answer),
        "html": lambda: explained.drawing(query, answer, svg=False),
        "svg": lambda: explained.drawing(query, answer, svg=True),
    }
    if not formats.write(makers):
        explained.show(query, answer, Output())


def _print_page(page: str, console: Console) -> None:
    """Print Markdown: laid out on a terminal, else as it is."""
    if console.is_terminal:
        from rich.markdown import Markdown

        console.print(Markdown(page, hyperlinks=False))
    else:
        console.file.write(page)


# ``ncu-swizzle report``: profiles side by side, measured now or saved, with a page.


@grouped
def report(
    profiles: Annotated[
        list[str],
        typer.Argument(metavar="A [B …]", help="Runs, saved profiles, .ncu-rep files or kernels; the baseline first."),
    ],
    selection: Selection,
    request: Request,
    formats: Formats,
    options: Options,
    own: PairOptions,
    sources: CatalogOptions,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="The HTML page; default: in the run, or in swizzle-out."),
    ] = None,
) -> None:
    """Show one profile, or compare several: tables and a page.

    \b
    ncu-swizzle report swizzle-out/kernel2                    a saved run, again
    ncu-swizzle report before.json after.json -o page.html --markdown -
    ncu-swizzle report mine.ncu-rep -k softmax --launch 3     one of its launches
    ncu-swizzle report kernel1 kernel2 --engine recorded      of the catalogue
    ncu-swizzle report my.cu --before -DSWIZZLE=0 --after -DSWIZZLE=1
    \f
    The first profile is compared with the second, and any others are shown alongside. What is saved is not measured
    again, and the same input gives the same bytes. A run's folder means the kernel or program that it was made for;
    given alone, everything in it.

    Kernels of reports with several are paired by function, grid, block and order, else by short name and order;
    --pair A=B overrides that. A .cu, cubin or PTX file is described as for ncu-swizzle profile and stands for all of
    its variants.
    """
    from ncu_swizzle.base.files import write_atomically
    from ncu_swizzle.commands import run_kernel
    from ncu_swizzle.kernels import naming
    from ncu_swizzle.render import page

    choice = selection.choice()
    if all(map(_is_saved, profiles)):
        own.description(request.problem, sources).refuse_beside(profiles[0])
        result = run_kernel.reopen(profiles, choice)
    else:
        named = naming.resolve(profiles, own.description(request.problem, sources), saved=True)
        entries = [entry for word in named for entry in word.entries]
        with output.progress() as progress:
            result = run_kernel.compare_all(entries, with_options(request, options), progress, choice)
    file = out or run_kernel.page_of(profiles)
    jobs = pool.jobs_for(request.jobs)
    write_atomically(file, page.render_all(result.comparisons, result.notes, result.title, jobs).encode())
    output.show(result, formats, (file,))


def _is_saved(word: str) -> bool:
    """Return whether a word is a run, a report or a saved profile, and not a kernel of the same name."""
    from ncu_swizzle.reports.run_folder import MANIFEST

    path = Path(word)
    return (path / MANIFEST).is_file() or (path.suffix in (".json", ".ncu-rep") and path.is_file())
