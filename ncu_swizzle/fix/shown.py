"""A fix on a terminal and as JSON."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError
from ncu_swizzle.base.texts import in_json
from ncu_swizzle.engines.settings import Progress, Request, silent
from ncu_swizzle.fix.claims import ClaimState, Proof
from ncu_swizzle.fix.expressions import unified
from ncu_swizzle.fix.result import KernelFix, TileFix
from ncu_swizzle.fix.sources import ChangedFile, FixQuery, SourceFix, fix_targets, written_together
from ncu_swizzle.gate import lint_inputs
from ncu_swizzle.gate.lint_inputs import LintOptions, Skipped
from ncu_swizzle.gate.verdict import MAX_DEGREE, CorrectedFile, Correction, Outcome, Replacement, Verdict, in_checkout
from ncu_swizzle.kernels import limits
from ncu_swizzle.kernels.family import BINARIES, PYTHON, Target
from ncu_swizzle.kernels.options import CatalogOptions
from ncu_swizzle.render.listing import PlainTable, table_line

# Fixes for what ``ncu-swizzle lint`` found: of every source with a line that conflicts.


def fixes(options: LintOptions, request: Request, verdict: Verdict, progress: Progress = silent) -> list[SourceFix]:
    """Return the fix of each source with a kernel that a check found to conflict."""
    named = {
        check.kernel for check in verdict.checks if check.criterion == MAX_DEGREE and check.outcome is Outcome.failed
    }
    by_source: dict[Path, list[Target]] = {}
    for target in _targets(options):
        by_source.setdefault(target.source.resolve(), []).append(target)
    chosen = [targets for targets in by_source.values() if any(target.name in named for target in targets)]
    made: list[SourceFix] = []
    for targets in chosen:
        if {target.name for target in targets} & named <= _mapped(made):
            continue
        fixed = _fixed(targets, options, request, progress)
        if fixed and not any(_meet(fixed, other) for other in made):
            made.append(fixed)
    return made


def _mapped(made: Sequence[SourceFix]) -> set[str]:
    """Return the kernels that fixes of other sources have mapped."""
    return {other.kernel for fixed in made for kernel in fixed.kernels for other in kernel.others if other.mapped}


def _meet(one: SourceFix, other: SourceFix) -> bool:
    """Say whether a fix changes what the other one was proved with: the next run will fix what is left."""
    changed = [{limits.plain(file.path) for file in fixed.files} for fixed in (one, other)]
    return bool(changed[0] & other.read or changed[1] & one.read)


def _targets(options: LintOptions) -> Iterator[Target]:
    for variant in lint_inputs.variants(options):
        if isinstance(variant, Skipped):
            continue
        family, kernel = variant
        names = {parameter.name for parameter in family.parameters}
        sizes = {name: size for name, size in options.description.problem.items() if name in names}
        target = Target(family, kernel, family.problem(sizes))
        if not kernel.library and target.source.suffix not in (*BINARIES, PYTHON):
            yield target


def _fixed(targets: Sequence[Target], options: LintOptions, request: Request, progress: Progress) -> SourceFix | None:
    sources = CatalogOptions(options.config, options.catalogs, options.trust)
    query = FixQuery(
        what=targets[0].name, request=request, description=options.description, sources=sources, progress=progress
    )
    try:
        return fix_targets(targets, query)
    except EnvironmentLacking:
        raise
    except NcuSwizzleError:  # lint has said what is wrong with it
        return None


def corrected(verdict: Verdict, made: Sequence[SourceFix]) -> Verdict:
    """Return the verdict with what corrects it."""
    return replace(verdict, corrections=tuple(_correction(fixed) for fixed in made if fixed.changed))


def _correction(fixed: SourceFix) -> Correction:
    proved = [kernel for kernel in fixed.kernels if kernel.proved]
    tiles = [f"{tile.name}: {tile.mapping}" for kernel in proved for tile in kernel.tiles if tile.proved]
    own = [kernel.kernel for kernel in fixed.kernels if kernel.proved or kernel.along]
    return Correction(
        (*own, *sorted(_mapped([fixed]))),
        f"{'; '.join(dict.fromkeys(tiles))}. Rebuilt and proved without a GPU.",
        tuple(
            CorrectedFile(in_checkout(str(file.path), Path.cwd()), tuple(_replacements(file))) for file in fixed.files
        ),
    )


def _replacements(file: ChangedFile) -> Iterator[Replacement]:
    old, new = (text.decode("utf-8", "replace").splitlines(keepends=True) for text in (file.before, file.after))
    for tag, first, last, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield Replacement(first + 1, last - first, "".join(new[start:end]))


def apply(made: Sequence[SourceFix]) -> list[Path]:
    """Write the files that changed; return them. Raises UsageError for one that is no longer what was read."""
    changed = [file for fixed in made for file in fixed.files]
    written_together(changed, "run the command again")
    return [file.path for file in changed]


SCHEMA = 1
STYLES = {ClaimState.HELD: "green", ClaimState.FAILED: "bold red", ClaimState.UNKNOWN: "yellow"}
COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def patch_of(fixed: SourceFix) -> str:
    """Return the patch of a source and its headers; empty if nothing changed.

    It applies in the source's folder, or in the one above it that holds the headers, too.
    """
    names = file_names(fixed)
    return "".join(unified(file.before, file.after, name) for name, file in zip(names, fixed.files, strict=True))


def file_names(fixed: SourceFix) -> list[str]:
    """Return the names of the files that change, from the folder that the patch applies in."""
    files = [limits.plain(file.path) for file in fixed.files]
    folder = os.path.commonpath([limits.plain(fixed.source).parent, *(file.parent for file in files)])
    return [file.relative_to(folder).as_posix() for file in files]


def show(fixed: SourceFix, console: Console) -> None:
    """Print each kernel's tiles and claims, then the patch."""
    for kernel in fixed.kernels:
        console.print(table_line(f"{kernel.kernel} in {kernel.source.name}", style="bold"))
        for sentence in sentences(kernel):
            console.print(table_line(sentence), soft_wrap=True)
        if kernel.proved and kernel.proof:
            console.print(_claims(kernel))
        console.print()
    if fixed.changed:
        console.print(_patch(patch_of(fixed)), soft_wrap=True)


def sentences(kernel: KernelFix) -> Iterator[str]:
    """Yield what came of a kernel's tiles."""
    if kernel.cost:
        yield kernel.cost
    if kernel.along:
        yield "The patch of another kernel of this file maps its arrays; it is proved for this one, too."
    elif not kernel.tiles and not kernel.notes:
        yield "No shared array of it conflicts."
    for tile in kernel.tiles:
        yield _sentence(tile, kernel.source.name)
        if not tile.proved and tile.mapping:
            yield f"  {tile.mapping} would leave {tile.excess_after:,} of {tile.excess_before:,} excessive wavefronts."
            yield f"  To apply it by hand: {kernel.suggest}"
        elif not tile.proved:
            yield f"  A mapping for it: {kernel.suggest}"
    if kernel.others:
        names = ", ".join(f"{other.kernel} ({other.source.name})" for other in kernel.others)
        yield f"Other sources include what is changed; it is proved for their kernels, too: {names}."
    yield from (*kernel.unread, *kernel.notes)


def _sentence(tile: TileFix, file: str) -> str:
    where = f"{tile.name} ({tile.file or file}:{tile.line})"
    if tile.proved:
        cost = f", for {tile.extra_bytes:,} more bytes" if tile.extra_bytes else ""
        excess = f"{tile.excess_before:,} excessive wavefronts before, {tile.excess_after:,} after"
        return f"{where}: {tile.mapping}{cost}: {excess}."
    verdict = "unknown" if tile.unknown else "not fixed"
    return f"{where}: {verdict}: {tile.reason} ({tile.reason_file or file}:{tile.reason_line})."


def _claims(kernel: KernelFix) -> PlainTable:
    table = PlainTable(gap=2, show_header=False)
    table.add_column()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for claim in kernel.claims:
        table.add_row(table_line((claim.state, STYLES[claim.state])), claim.about, claim.reason)
    if kernel.not_measured:
        table.add_row("", "on a GPU", f"not measured: {kernel.not_measured}")
    return table


def _patch(patch: str) -> Text:
    """Return a patch in colours."""
    shown = Text()
    for row in patch.splitlines():
        shown.append_text(table_line(row, style=COLOURS.get(row[:1], "")))
        shown.append("\n")
    return shown


def to_json(fixed: SourceFix, patch_file: str) -> str:
    """Return a fix as one JSON object; ``docs/fix.md`` describes it."""
    content = {
        "schema": SCHEMA,
        "source": str(fixed.source),
        "outcome": outcome(fixed.kernels),
        "patch_file": patch_file,
        "patch": patch_of(fixed),
        "files": [str(file.path) for file in fixed.files],
        "kernels": [_kernel(kernel) for kernel in fixed.kernels],
    }
    return in_json(content, indent=1)


def outcome(kernels: Sequence[KernelFix]) -> str:
    """Return ``proved`` if a fix was, ``clean`` if nothing conflicts, else ``unknown`` or ``refused``."""
    if any(kernel.proved for kernel in kernels):
        return "proved"
    if all(kernel.clean for kernel in kernels):
        return "clean"
    return "unknown" if any(kernel.unknown for kernel in kernels) else "refused"


def _kernel(kernel: KernelFix) -> dict[str, Any]:
    return {
        "kernel": kernel.kernel,
        "proved": kernel.proved,
        "tiles": [asdict(tile) for tile in kernel.tiles],
        "proof": _proof(kernel.proof) if kernel.proof else None,
        "measured": [asdict(claim) for claim in kernel.measured],
        "not_measured": kernel.not_measured,
        "cost": kernel.cost,
        "suggest": kernel.suggest,
        "notes": [*kernel.unread, *kernel.notes],
        "others": [{"kernel": other.kernel, "source": str(other.source)} for other in kernel.others],
    }


def _proof(proof: Proof) -> dict[str, Any]:
    content = asdict(proof)
    return {**content, "state": str(proof.state)}
