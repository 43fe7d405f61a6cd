"""The files of a fix: the patch, the page, the source itself if that is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from ncu_swizzle.files import write_atomically
from ncu_swizzle.fix import page, shown
from ncu_swizzle.fix.sources import SourceFix
from ncu_swizzle.fix.together import written_together
from ncu_swizzle.render.terminal_tables import line


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
    write_atomically(document, page.render(fixed).encode())
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
            console.print(line(f"{what}: {file}"), soft_wrap=True)
