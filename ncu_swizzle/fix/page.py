"""A fix as one HTML file without scripts: its claims, its tiles, and the source before and after."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from ncu_swizzle.fix.result import KernelFix
from ncu_swizzle.fix.shown import outcome, patch_of, sentences
from ncu_swizzle.fix.sources import SourceFix
from ncu_swizzle.render.page import environment

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
class FixPage:
    """What the page shows."""

    title: str
    verdict: str
    kernels: tuple[FixedKernel, ...]
    rows: tuple[DiffRow, ...]
    patch: str


def render(fixed: SourceFix) -> str:
    """Return the document; the same fix gives the same bytes."""
    page = FixPage(
        f"{fixed.source.name}, fixed" if fixed.changed else fixed.source.name,
        VERDICTS[outcome(fixed.kernels)],
        tuple(FixedKernel(kernel, tuple(sentences(kernel))) for kernel in fixed.kernels),
        tuple(_rows(fixed)) if fixed.changed else (),
        patch_of(fixed),
    )
    return environment().get_template("fix/page.html").render(page=page)


def _rows(fixed: SourceFix) -> list[DiffRow]:
    """Return the lines side by side, unchanged ones only around changes."""
    old, new = (text.decode("utf-8", "replace").splitlines() for text in (fixed.before, fixed.after))
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
