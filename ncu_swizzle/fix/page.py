"""The files of a fix: the patch, the page, the source itself if that is asked for."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from ncu_swizzle.base.files import write_atomically
from ncu_swizzle.fix import shown
from ncu_swizzle.fix.result import KernelFix
from ncu_swizzle.fix.shown import file_names, outcome, patch_of, sentences
from ncu_swizzle.fix.sources import ChangedFile, SourceFix, written_together
from ncu_swizzle.render.listing import table_line
from ncu_swizzle.render.page import environment

# A fix as one HTML file without scripts: its claims, its tiles, and the source before and after.


AROUND = 4  # unchanged lines shown around a changed one
VERDICTS = {
    "proved": "Fixed, and proved.",
    "clean": "No shared array conflicts.",
    "unknown": "Not fixed: what is unknown stands in the way.",
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


@dataclass(frozen=True)
class FixedKernel:
    """A kernel's part of the page."""

    fix: KernelFix
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class FixedFile:
    """A file side by side; its name is empty if it is the source alone that changes."""

    name: str
    rows: tuple[DiffRow, ...]


@dataclass(frozen=True, kw_only=True)
class FixPage:
    """What the page shows."""

    title: str
    verdict: str
    kernels: tuple[FixedKernel, ...]
    files: tuple[FixedFile, ...]
    patch: str


def render(fixed: SourceFix) -> str:
    """Return the document; the same fix gives the same bytes."""
    page = FixPage(
        title=f"{fixed.source.name}, fixed" if fixed.changed else fixed.source.name,
        verdict=VERDICTS[outcome(fixed.kernels)],
        kernels=tuple(FixedKernel(kernel, tuple(sentences(kernel))) for kernel in fixed.kernels),
        files=tuple(_files(fixed)),
        patch=patch_of(fixed),
    )
    return environment().get_template("fix/page.html").render(page=page)


def _files(fixed: SourceFix) -> list[FixedFile]:
    names = file_names(fixed)
    alone = names == [fixed.source.name]
    return [FixedFile("" if alone else name, tuple(_rows(file))) for name, file in zip(names, fixed.files, strict=True)]


def _rows(file: ChangedFile) -> list[DiffRow]:
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


@dataclass(frozen=True)
class FixFiles:
    """The files that were written, empty for those that were not."""

    patch: str = ""
    page: str = ""
    applied: str = ""


def write(fixed: SourceFix, folder: Path, applied: bool = False) -> FixFiles:
    """Write the patch and the page, and with `applied` the source and its headers.

    Raises UsageError if one of them is no longer what was read, NotWritable if a file cannot be written.
    """
    name = fixed.source.name
    document = folder / f"{name}.fix.html"
    write_atomically(document, render(fixed).encode())
    if not fixed.changed:
        return FixFiles(page=str(document))
    patch = folder / f"{name}.patch"
    write_atomically(patch, shown.patch_of(fixed).encode("utf-8", "surrogateescape"))
    if not applied:
        return FixFiles(str(patch), str(document))
    apply(fixed)
    return FixFiles(str(patch), str(document), ", ".join(str(file.path) for file in fixed.files))


def apply(fixed: SourceFix) -> None:
    """Write the source and its headers, see `written_together`."""
    written_together(fixed.files, "fix it again")


def write_json(fixed: SourceFix, files: FixFiles, destination: str) -> None:
    """Write the JSON to a file, if one is named."""
    if destination:
        write_atomically(Path(destination), shown.to_json(fixed, files.patch).encode())


def announce(files: FixFiles, console: Console) -> None:
    """Print what was written."""
    for what, file in (("The patch", files.patch), ("The page", files.page), ("Written", files.applied)):
        if file:
            console.print(table_line(f"{what}: {file}"), soft_wrap=True)
