"""Which files a source includes: read from their text, as far as the ``#include`` lines say it plainly.

What stands in a comment counts too: one file too many does no harm. What a macro names is not seen (`computed`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"(?P<beside>[^"\n]+)"|<(?P<system>[^>\n]+)>)', re.MULTILINE)
_COMPUTED = re.compile(r'^[ \t]*#[ \t]*include[ \t]+[^"<\s]', re.MULTILINE)


def texts(sources: Iterable[Path], folders: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Yield each source that is there, and everything that it includes and that lies beside it or in the folders.

    Paths are absolute and without ``..``. Headers of the toolkit and of the host's compiler are not among them.
    """
    seen: set[Path] = set()
    waiting = [_plain(source) for source in sources]
    while waiting:
        file = waiting.pop(0)
        if file in seen or not file.is_file():
            continue
        seen.add(file)
        text = file.read_text(encoding="utf-8", errors="replace")
        yield file, text
        waiting += [header for name, beside in _named(text) if (header := _locate(name, beside, file, folders))]


def has_computed_include(text: str) -> bool:
    """Return whether the text includes what a macro names."""
    return _COMPUTED.search(text) is not None


def folders(options: Sequence[str]) -> list[Path]:
    """Return the folders of nvcc's options ``-Ifolder``."""
    return [Path(option[2:]) for option in options if option.startswith("-I") and len(option) > 2]


def _named(text: str) -> Iterator[tuple[str, bool]]:
    for match in _INCLUDE.finditer(text):
        yield match["beside"] or match["system"], match["beside"] is not None


def _locate(name: str, beside: bool, file: Path, folders: Sequence[Path]) -> Path | None:
    places = [*([file.parent] if beside else []), *folders]
    return next((_plain(folder / name) for folder in places if (folder / name).is_file()), None)


def _plain(path: Path) -> Path:
    return Path(os.path.normpath(path.absolute()))  # links stay as they are: the compiler names files through them
