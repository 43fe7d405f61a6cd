"""A fix on a terminal, as JSON, as a patch, and as one HTML page without scripts; what of it corrects a verdict."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from ncu_swizzle.base.files import write_atomically
from ncu_swizzle.base.texts import in_json
from ncu_swizzle.cycles.simulated import Span, saved_by
from ncu_swizzle.fix.claims import ClaimState, Proof
from ncu_swizzle.fix.edits import unified
from ncu_swizzle.fix.result import KernelFix, TileFix
from ncu_swizzle.fix.sources import ChangedFile, SourceFix, written_together
from ncu_swizzle.kernels import limits
from ncu_swizzle.render.listing import PlainTable, table_line
from ncu_swizzle.render.templates import new_environment
from ncu_swizzle.reports.options import COMPUTED, NCU, origin_of
from ncu_swizzle.reports.remarks import fewer_cycles, saving

if TYPE_CHECKING:
    from ncu_swizzle.gate.verdict import Correction, Replacement, Verdict

SCHEMA = 2
NOT_PROVED = "Not proved, and not applied by --apply"
STYLES = {ClaimState.HELD: "green", ClaimState.FAILED: "bold red", ClaimState.UNKNOWN: "yellow"}
COLOURS = {"+": "green", "-": "red", "@": "cyan"}  # of a patch's lines


def patch_of(fixed: SourceFix, proved: bool = True) -> str:
    """Return the patch of a source and its headers, or what is not proved on top of it; empty if nothing changes.

    It applies in the source's folder, or in the one above it that holds the headers, too.
    """
    changed = fixed.files if proved else fixed.unproved_files
    names = file_names(fixed, changed)
    return "".join(unified(file.before, file.after, name) for name, file in zip(names, changed, strict=True))


def file_names(fixed: SourceFix, changed: Sequence[ChangedFile]) -> list[str]:
    """Return the names of the files that change, from the folder that the patch applies in."""
    files = [limits.plain(file.path) for file in changed]
    folder = os.path.commonpath([limits.plain(fixed.source).parent, *(file.parent for file in files)])
    return [file.relative_to(folder).as_posix() for file in files]


def show(fixed: SourceFix, console: Console) -> None:
    """Print each kernel's tiles and claims, then the patch."""
    for kernel in fixed.kernels:
        console.print(table_line(f"{kernel.kernel} in {kernel.source.name}", style="bold"))
        for sentence in sentences(kernel):
            console.print(table_line(sentence), soft_wrap=True)
        if kernel.proved and kernel.proof:
            console.print(_claims(kernel, kernel.proof))
        console.print()
    if fixed.changed:
        console.print(_coloured(patch_of(fixed)), soft_wrap=True)
    if fixed.unproved_files:
        console.print(table_line(f"{NOT_PROVED}:", style="bold yellow"))
        console.print(_coloured(patch_of(fixed, proved=False)), soft_wrap=True)


def _coloured(patch: str) -> Text:
    text = Text()
    for row in patch.splitlines():
        text.append_text(table_line(row, style=COLOURS.get(row[:1], "")))
        text.append("\n")
    return text


def sentences(kernel: KernelFix) -> Iterator[str]:
    """Yield the outcome of a kernel's tiles."""
    if kernel.along:
        yield "The patch of another kernel of this file maps its arrays; it is proved for this one, too."
    elif not kernel.tiles and not kernel.notes:
        yield "No shared array of it conflicts."
    for tile in kernel.tiles:
        yield _sentence(tile, kernel.source.name)
        if tile.offered:
            left = f"{tile.excess_after:,} of {tile.excess_before:,} excessive wavefronts"
            yield f"  {tile.mapping}, as shown below, leaves {left}."
        elif tile.proved and tile.other:
            yield f"  {tile.other}."
        elif not tile.proved and tile.mapping:
            yield f"  {tile.mapping} would leave {tile.excess_after:,} of {tile.excess_before:,} excessive wavefronts."
            yield f"  To apply it by hand: {kernel.suggest}"
        elif not tile.proved and not tile.least:
            yield f"  A mapping for it: {kernel.suggest}"
    saved, both = _saving(kernel)
    if saved and both:
        yield f"{kernel.kernel}: patched, it would take {fewer_cycles(saved)}: both simulated, see docs/cycles.md."
    elif saved:
        yield f"{saving(kernel.profiles[0])}."
    yield from kernel.notes


def _sentence(tile: TileFix, file: str) -> str:
    where = f"{tile.name} ({tile.file or file}:{tile.line})"
    if tile.proved:
        bytes_ = f"{abs(tile.extra_bytes):,} {'more' if tile.extra_bytes > 0 else 'fewer'} bytes"
        cost = f", for {bytes_}" if tile.extra_bytes else ""
        excess = f"{tile.excess_before:,} excessive wavefronts before, {tile.excess_after:,} after"
        return f"{where}: {tile.mapping}{cost}: {excess}."
    verdict = "not proved" if tile.offered else "unknown" if tile.unknown else "not fixed"
    return f"{where}: {verdict}: {tile.reason} ({tile.reason_file or file}:{tile.reason_line})."


def _saving(kernel: KernelFix) -> tuple[Span | None, bool]:
    """Return what the patch saves, and True, if both versions are simulated; else what removing the excess would."""
    told = [profile.simulated for profile in kernel.profiles]
    if len(told) > 1 and (saved := saved_by(*told)):
        return saved, True
    return told[0].saved if told and told[0] and kernel.profiles[0].total.excessive else None, False


def _claims(kernel: KernelFix, proof: Proof) -> PlainTable:
    table = PlainTable(gap=2, show_header=False)
    table.add_column()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for claim in kernel.claims:
        table.add_row(table_line((claim.state, STYLES[claim.state])), claim.about, claim.reason)
    for sentence in proof.covers:
        table.add_row("", "covers", sentence)
    if kernel.not_measured:
        table.add_row("", "on a GPU", f"not measured: {kernel.not_measured}")
    return table


def to_json(fixed: SourceFix, patch_file: str) -> str:
    """Return a fix as one JSON object; ``docs/fix.md`` describes it."""
    content = {
        "schema": SCHEMA,
        "provenance": COMPUTED,
        "source": str(fixed.source),
        "outcome": fixed.outcome,
        "patch_file": patch_file,
        "patch": patch_of(fixed),
        "files": [str(file.path) for file in fixed.files],
        "not_proved": patch_of(fixed, proved=False),
        "kernels": [kernel_json(kernel) for kernel in fixed.kernels],
    }
    return in_json(content, indent=1)


def kernel_json(kernel: KernelFix) -> dict[str, Any]:
    """Return a kernel's part of the JSON."""
    saved, both = _saving(kernel)
    return {
        "kernel": kernel.kernel,
        "proved": kernel.proved,
        "tiles": [asdict(tile) for tile in kernel.tiles],
        "proof": {**asdict(kernel.proof), "state": str(kernel.proof.state)} if kernel.proof else None,
        "measured": [{**asdict(claim), "provenance": origin_of(NCU).provenance} for claim in kernel.measured],
        "not_measured": kernel.not_measured,
        "suggest": kernel.suggest,
        "saves": {**asdict(saved), "both_simulated": both} if saved else None,
        "notes": [*kernel.notes],
        "unknowns": [asdict(why) for why in kernel.unknowns],
    }


# The page: claims, tiles, and the files before and after, side by side.

AROUND = 4  # unchanged lines shown around a changed one
VERDICTS = {
    "proved": "Fixed, and proved.",
    "clean": "No shared array conflicts.",
    "unknown": "Not proved.",
    "refused": "Not fixed: nothing could be proved.",
}


@dataclass(frozen=True)
class DiffRow:
    """A line before and after, with their numbers; `kind` is what happened to it."""

    kind: str
    old_number: int | None = None
    old: str = ""
    new_number: int | None = None
    new: str = ""


def render(fixed: SourceFix) -> str:
    """Return the page; the same fix gives the same bytes."""
    changed = (*fixed.files, *fixed.unproved_files)
    names = file_names(fixed, changed)
    return (
        new_environment()
        .get_template("fix/page.html")
        .render(
            title=f"{fixed.source.name}, fixed" if fixed.changed else fixed.source.name,
            verdict=VERDICTS[fixed.outcome],
            kernels=fixed.kernels,
            sentences=sentences,
            files=[
                (name if file in fixed.files else f"{name}: not proved", diff_rows(file))
                for name, file in zip(names, changed, strict=True)
            ],
            several=names != [fixed.source.name] or not fixed.changed,  # not the source alone, whose name is the title
        )
    )


def diff_rows(file: ChangedFile) -> list[DiffRow]:
    """Return the lines side by side, unchanged ones only around changes."""
    old, new = (text.decode("utf-8", "replace").splitlines() for text in (file.before, file.after))
    rows: list[DiffRow] = []
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(AROUND):
        if rows:
            rows.append(DiffRow("gap"))
        for tag, first, last, start, end in group:
            rows += [
                DiffRow(
                    tag,
                    *((first + i + 1, old[first + i]) if first + i < last else (None, "")),
                    *((start + i + 1, new[start + i]) if start + i < end else (None, "")),
                )
                for i in range(max(last - first, end - start))
            ]
    return rows


# What is written: the patch, the page, the source itself if that is asked for.


@dataclass(frozen=True)
class FixFiles:
    """The files that were written, empty for those that were not."""

    patch: str = ""
    not_proved: str = ""
    page: str = ""
    applied: str = ""


def write(fixed: SourceFix, folder: Path, applied: bool = False) -> FixFiles:
    """Write the patch and the page, and with `applied` the source and its headers.

    Raises UsageError if one of them is no longer what was read, NotWritable if a file cannot be written.
    """
    name = fixed.source.name
    page = folder / f"{name}.fix.html"
    write_atomically(page, render(fixed).encode())
    written = FixFiles(page=str(page))
    if fixed.unproved_files:
        written = replace(written, not_proved=str(folder / f"{name}.not-proved.patch"))
        write_atomically(Path(written.not_proved), patch_of(fixed, proved=False).encode("utf-8", "surrogateescape"))
    if fixed.changed:
        written = replace(written, patch=str(folder / f"{name}.patch"))
        write_atomically(Path(written.patch), patch_of(fixed).encode("utf-8", "surrogateescape"))
    if fixed.changed and applied:
        written_together(fixed.files, "fix it again")
        written = replace(written, applied=", ".join(str(file.path) for file in fixed.files))
    return written


def announce(files: FixFiles, console: Console) -> None:
    """Print what was written."""
    named = (("The patch", files.patch), ("Not proved", files.not_proved), ("The page", files.page))
    for what, file in (*named, ("Written", files.applied)):
        if file:
            console.print(table_line(f"{what}: {file}"), soft_wrap=True)


# What corrects the findings of ``ncu-swizzle lint``.


def corrected(verdict: Verdict, fixes: Sequence[SourceFix]) -> Verdict:
    """Return the verdict with what corrects it."""
    return replace(verdict, corrections=tuple(_correction(fixed) for fixed in fixes if fixed.changed))


def _correction(fixed: SourceFix) -> Correction:
    from ncu_swizzle.gate.verdict import CorrectedFile, Correction, in_checkout  # loaded by lint

    proved = [kernel for kernel in fixed.kernels if kernel.proved]
    tiles = [f"{tile.name}: {tile.mapping}" for kernel in proved for tile in kernel.tiles if tile.proved]
    own = [kernel.kernel for kernel in fixed.kernels if kernel.proved or kernel.along]
    return Correction(
        tuple(own),
        f"{'; '.join(dict.fromkeys(tiles))}. Rebuilt and proved without a GPU.",
        tuple(
            CorrectedFile(in_checkout(str(file.path), Path.cwd()), tuple(_replacements(file))) for file in fixed.files
        ),
    )


def _replacements(file: ChangedFile) -> Iterator[Replacement]:
    from ncu_swizzle.gate.verdict import Replacement

    old, new = (text.decode("utf-8", "replace").splitlines(keepends=True) for text in (file.before, file.after))
    for tag, first, last, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield Replacement(first + 1, last - first, "".join(new[start:end]))
