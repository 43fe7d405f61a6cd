"""A fix on a terminal and as JSON."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from ncu_swizzle.catalog import includes
from ncu_swizzle.fix.result import KernelFix, TileFix
from ncu_swizzle.fix.sources import SourceFix
from ncu_swizzle.proof.claims import Proof, State
from ncu_swizzle.render.terminal_tables import PlainTable, line
from ncu_swizzle.source.edits import unified
from ncu_swizzle.texts import in_json

SCHEMA = 1
STYLES = {State.HELD: "green", State.FAILED: "bold red", State.UNKNOWN: "yellow"}
COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def patch_of(fixed: SourceFix) -> str:
    """Return the patch of a source and its headers; empty if nothing changed.

    It applies in the source's folder, or in the one above it that holds the headers, too.
    """
    names = file_names(fixed)
    return "".join(unified(file.before, file.after, name) for name, file in zip(names, fixed.files, strict=True))


def file_names(fixed: SourceFix) -> list[str]:
    """Return the names of the files that change, from the folder that the patch applies in."""
    files = [includes.plain(file.path) for file in fixed.files]
    folder = os.path.commonpath([includes.plain(fixed.source).parent, *(file.parent for file in files)])
    return [file.relative_to(folder).as_posix() for file in files]


def show(fixed: SourceFix, console: Console) -> None:
    """Print each kernel's tiles and claims, then the patch."""
    for kernel in fixed.kernels:
        console.print(line(f"{kernel.kernel} in {kernel.source.name}", style="bold"))
        for sentence in sentences(kernel):
            console.print(line(sentence), soft_wrap=True)
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
        table.add_row(line((claim.state, STYLES[claim.state])), claim.about, claim.reason)
    if kernel.not_measured:
        table.add_row("", "on a GPU", f"not measured: {kernel.not_measured}")
    return table


def _patch(patch: str) -> Text:
    """Return a patch in colours."""
    shown = Text()
    for row in patch.splitlines():
        shown.append_text(line(row, style=COLOURS.get(row[:1], "")))
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
