"""``ncu-swizzle fix`` and ``init``: rewrite a kernel, and describe the kernels of a file in ncu-swizzle.toml."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from ncu_swizzle.base.errors import GateFailed, NcuSwizzleError, NotComparable, UsageError
from ncu_swizzle.base.texts import on_terminal, option
from ncu_swizzle.commands import output
from ncu_swizzle.commands.groups import Emulating, Only, grouped
from ncu_swizzle.engines.settings import Request
from ncu_swizzle.kernels.options import CatalogOptions, KernelOptions
from ncu_swizzle.reports.options import Formats

if TYPE_CHECKING:
    from ncu_swizzle.base.pool import ItemOutcome
    from ncu_swizzle.fix.sources import SourceFix


# ``ncu-swizzle fix``: rewrite a kernel's shared arrays so that nothing conflicts, and prove it.


@dataclass(frozen=True, kw_only=True)
class FixExtras:
    """What may change, what is written, and what a GPU checks."""

    group: ClassVar[str] = "Mappings and proofs"

    only: str = option("", "Only this kind of mapping.", choices=("padding", "swizzle"), common=True)
    max_shared: int | None = option(None, "At most this much shared memory per block.", "BYTES", minimum=0, common=True)
    slower: bool = option(
        False, "Offer a patch that costs blocks per SM, or cycles.", flags=("--allow-slower",), common=True
    )
    apply: bool = option(
        False, "Write the source, if all is proved and it is unchanged.", flags=("--apply",), common=True
    )
    gpu: bool = option(True, "Measure what is proved, if a GPU is here.", flags=("--gpu/--no-gpu",), common=True)
    out: Path = option(Path(), "Where the patch and the page go.", "FOLDER", ("-o", "--out"), common=True)


@grouped
def fix(
    what: Annotated[
        list[str], typer.Argument(metavar="FILE|KERNEL…", help=".cu files, or kernels of ncu-swizzle.toml.")
    ],
    extras: FixExtras,
    formats: Annotated[Formats, Only("json")],
    request: Emulating,
    own: KernelOptions,
    sources: CatalogOptions,
) -> None:
    """Rewrite what conflicts, and prove the patch: exit code 0, 1 or 5.

    \b
    ncu-swizzle fix my.cu --kernel transpose --grid 32,32 --block 32,8 --arg …
    ncu-swizzle fix my.cu            all that ncu-swizzle.toml describes of it
    ncu-swizzle fix a.cu b.cu        side by side, on all cores
    ncu-swizzle fix my.cu --apply    write the file, not just my.cu.patch
    ncu-swizzle fix my.cu --only padding --max-shared 49152
    \f
    One mapping for all accesses to an array, written into its declaration and subscripts. The patched source is
    rebuilt and emulated: the conflicts must be gone, at no cost elsewhere. Then everything that is compiled from the
    changed text is proved to do the same as before in every launch; what is not proved is shown as such. No GPU
    is needed; if one is here, both versions are launched on it: the outputs must be bit-identical, and the new one must
    not be slower.
    Exit code 0: proved; 1: no patch; 5: a patch that is not proved, or what is unknown stands in the way.
    """
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.fix import shown
    from ncu_swizzle.fix.candidates import FixOptions, MappingKind
    from ncu_swizzle.fix.sources import FixQuery, fix_all, fix_each

    options = FixOptions(MappingKind(extras.only) if extras.only else None, extras.max_shared, extras.slower)
    if len(what) > 1 and formats != Formats():
        raise UsageError("--json is for one file", "each file has its patch and its page: ls *.patch *.fix.html")
    with output.progress() as progress:
        query = FixQuery(
            request=request,
            description=own.description(request.problem, sources),
            options=options,
            progress=progress,
            on_gpu=extras.gpu,
        )
        if len(what) > 1:
            outcomes = list(fix_each(what, query))
        else:
            fixed = fix_all(what[0], query)
    if len(what) > 1:
        _show_each(what, outcomes, extras)
        return
    files = shown.write(fixed, extras.out, applied=extras.apply)
    if not formats.write({"json": lambda: shown.to_json(fixed, files.patch)}):
        shown.show(fixed, Output())
        shown.announce(files, Output())
    _conclude(fixed)


def _show_each(what: Sequence[str], outcomes: Sequence[ItemOutcome], extras: FixExtras) -> None:
    """Write and print the outcome of several files, and raise the first error.

    Of two whose patches change what the other was proved with, the first is written; the next run fixes what is left.
    """
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.fix import shown
    from ncu_swizzle.fix.sources import meet
    from ncu_swizzle.render.listing import table_line

    applied: list[SourceFix] = []
    errors: list[tuple[str, NcuSwizzleError]] = []
    for word, outcome in zip(what, outcomes, strict=True):
        fixed: SourceFix | None = outcome.value
        if fixed is None:
            assert outcome.error is not None
            errors.append((word, outcome.error))
            Output().print(table_line(f"failed: {word}: {outcome.error}", style="red"))
            continue
        other = next((one for one in applied if extras.apply and fixed.changed and meet(fixed, one)), None)
        files = shown.write(fixed, extras.out, applied=extras.apply and other is None)
        shown.show(fixed, Output())
        shown.announce(files, Output())
        if other is not None:
            Output().print(table_line(f"Not written: it shares a file with {other.source}. Run the command again."))
        elif fixed.changed:
            applied.append(fixed)
        try:
            _conclude(fixed)
        except NcuSwizzleError as error:
            errors.append((word, error))
    if errors:
        word, first = errors[0]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise type(first)(f"{len(errors)} of {len(what)} were not fixed; {word}: {first}{more}", first.hint)


def _conclude(fixed: SourceFix) -> None:
    """Raise GateFailed or NotComparable unless a fix was proved, or nothing conflicts."""
    hint = next((kernel.suggest for kernel in fixed.kernels if kernel.suggest and not kernel.proved), "")
    tiles = [tile for kernel in fixed.kernels for tile in kernel.tiles if not tile.proved]
    if fixed.outcome == "refused" and all(tile.least for tile in tiles):
        raise GateFailed("no layout that was tried takes fewer wavefronts", "")
    if fixed.outcome == "refused" and any(tile.slower for tile in tiles):
        raise GateFailed("what is proved would be slower", "--allow-slower offers it all the same")
    if fixed.outcome == "refused":
        raise GateFailed("nothing could be proved", f"{hint} shows the mapping" if hint else "")
    if fixed.outcome == "unknown" and fixed.unproved_files:
        raise NotComparable("the patch is not proved", "prove says what of two versions can be proved")
    if fixed.outcome == "unknown":
        raise NotComparable("what is unknown stands in the way of a proof", f"{hint} shows the mapping" if hint else "")


@grouped
def init(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="A .cu, cubin or PTX file.")],
    request: Annotated[Request, Only("problem", "nvcc", "timeout_s")],
    own: KernelOptions,
    sources: Annotated[CatalogOptions, Only("config")],
) -> None:
    """Describe how the kernels of FILE are launched, in ncu-swizzle.toml.

    \b
    ncu-swizzle init my.cu
    ncu-swizzle init my.cu --kernel fn --block 256 --std c++20
    \f
    Parameters come from the compiled kernels, grid, block and shared memory from the options or, if constants say them,
    from the launches in the source; what else a launch needs is marked TODO. Entries are added to the nearest
    ncu-swizzle.toml, or to a new one beside FILE; none is ever changed.
    """
    from ncu_swizzle.commands.describe_kernel import ProjectEntry, describe
    from ncu_swizzle.engines.emulation import EmulationSettings

    settings = EmulationSettings.of(request, simulating=False)
    description = own.description(request.problem, sources)
    entries: dict[Path, list[ProjectEntry]] = {}
    for file in files:
        described = describe(file, description, settings)
        entries.setdefault(described.file, []).extend(described.entries)
        for function in described.already:
            typer.echo(on_terminal(f"{described.file} already describes {function} of {file.name}"))
        for entry in described.entries:
            typer.echo(on_terminal(f"{described.file}: [kernel.{entry.name}] added"))
    for config, added in entries.items():
        names = [entry.name for entry in added]
        command = shlex.join(["ncu-swizzle", "lint", *names, *_naming(config, sources.config)])
        complete = all(entry.complete for entry in added)
        typer.echo(on_terminal(f"then: {command}" if complete else f"Replace each TODO there, then: {command}"))


def _naming(file: Path, typed: str) -> list[str]:
    """Return the option that names a project's file; none if commands find it from the current folder."""
    from ncu_swizzle.kernels.project import nearest_project

    if typed:
        return ["--config", typed]
    nearest = nearest_project(Path.cwd())
    return [] if nearest and nearest.file.resolve() == file.resolve() else ["--config", os.path.relpath(file)]
