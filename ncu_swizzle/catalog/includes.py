"""Which files a source includes, as far as plain ``#include`` lines tell.

Includes in comments count too: one file too many does no harm. Includes that name a macro are not followed, see
`has_computed_include`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ncu_swizzle.catalog import python_imports

_DIRECTIVE = r"(?:#|%:)[ \t]*(?:include|include_next|import)\b[ \t]*"
_INCLUDE = re.compile(_DIRECTIVE + r'(?:"(?P<beside>[^"\n]+)"|<(?P<system>[^>\n]+)>)')
_COMPUTED = re.compile(rf'^(?:.*\*/)?[ \t]*{_DIRECTIVE}(?![ \t"<])', re.MULTILINE)
FOLDER_OPTIONS = ("-I", "-isystem=")
_INHERITED = ("CPATH", "CPLUS_INCLUDE_PATH")  # where the compiler searches too


def texts(sources: Iterable[Path], folders: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Yield each existing source and everything it includes from its own folder or from `folders`.

    Paths are absolute and without ``..``. Headers of the toolkit and of the host compiler are left out.
    """
    seen: set[Path] = set()
    waiting = [plain(source) for source in sources]
    while waiting:
        file = waiting.pop(0)
        if file in seen or not file.is_file():
            continue
        seen.add(file)
        text = file.read_text(encoding="utf-8", errors="replace")
        yield file, text
        if file.suffix == ".py":
            waiting += python_imports.beside(file, text)
        else:
            waiting += [header for name, beside in named(text) if (header := located(name, beside, file, folders))]


def has_computed_include(text: str) -> bool:
    """Return whether the text has an ``#include`` of a macro."""
    return _COMPUTED.search(text) is not None


def folders(options: Sequence[str]) -> list[Path]:
    """Return the folders named by options, ``-Ifolder`` and ``-isystem=folder``, and by the environment."""
    named = [option.removeprefix(form) for option in options for form in FOLDER_OPTIONS if option.startswith(form)]
    inherited = [folder for name in _INHERITED for folder in os.environ.get(name, "").split(os.pathsep)]
    return [Path(folder) for folder in (*named, *inherited) if folder]


def named(text: str) -> Iterator[tuple[str, bool]]:
    """Yield what a text includes, and whether it is in quotes."""
    for match in _INCLUDE.finditer(text):
        yield match["beside"] or match["system"], match["beside"] is not None


def located(name: str, beside: bool, file: Path, folders: Sequence[Path]) -> Path | None:
    """Return the file that an ``#include`` in another one names, if it is there."""
    places = [*([file.parent] if beside else []), *folders]
    return next((plain(folder / name) for folder in places if (folder / name).is_file()), None)


def plain(path: Path) -> Path:
    """Return an absolute path without ``..``."""
    return Path(os.path.normpath(path.absolute()))  # keep links: the compiler names files by them
