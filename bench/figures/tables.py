"""Markdown tables, and the markers between which files hold them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MARKERS = "<!-- {name}: written by {by} -->\n", "<!-- end of {name} -->"


def head(*columns: str) -> str:
    return f"| {' | '.join(columns)} |\n" + "|---" * len(columns) + "|"


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def replace(file: Path, name: str, by: str, text: str) -> None:
    """Replace the text between the file's markers of that name; `by` is the file of the program that writes it."""
    start, end = (marker.format(name=name, by=Path(by).resolve().relative_to(ROOT)) for marker in MARKERS)
    old = file.read_text(encoding="utf-8")
    new, count = re.subn(f"(?s)({re.escape(start)}).*?({re.escape(end)})", lambda m: m[1] + text + m[2], old)
    if not count:
        raise SystemExit(f"{file} has no markers for {name}: add the lines {start.strip()} and {end}")
    file.write_text(new, encoding="utf-8")
