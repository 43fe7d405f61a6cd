"""Names of kernels and programs, short enough to be read: pure functions on texts, total on any text.

A demangled name is ``RETURN NAMESPACE::FUNCTION<TEMPLATE ARGUMENTS>(PARAMETERS)``, as ncu and c++filt write it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

MOST = 60  # characters of a shortened name
CUT = "…"
SUFFIXES = (".ncu-rep", ".json")

_OPEN, _CLOSE = "(<[{", ")>]}"
_PAIRS = dict(zip(_CLOSE, _OPEN, strict=True))
_UNNAMED = re.compile(r"(\(anonymous namespace\)|<unnamed>|\(anonymous\)|\{anonymous\})::")
_CAST = re.compile(r"\([A-Za-z_][\w: ]*\)(?=-?\d)")
_LITERAL = re.compile(r"\b(\d+)(?:[uU]?[lL]{0,2})\b")
_QUALIFIER = re.compile(r"(?<![\w>)}\]])(?:\w+::)+(?=[\w~{])")
_OPERATOR = re.compile(r"operator\s*(\(\)|\[\]|<<=?|>>=?|<=>|[-+*/%^&|~!=<>]=?|->\*?|&&|\|\||\+\+|--|,)")
_INTERPRETERS = re.compile(r"(python|pypy)[\d.]*$")


def function(demangled: str) -> str:
    """Return a function's own name: no namespace, template argument, parameter or return type.

    What has no such name is returned as it is.
    """
    *_, last = _parts(_entity(demangled))
    return printable(_head(last).strip() or demangled.strip())


def shorten(demangled: str, most: int = MOST) -> str:
    """Return a function's name with its template arguments, all without namespaces, in at most so many characters."""
    *_, last = _parts(_entity(demangled))
    plain = _QUALIFIER.sub("", _CAST.sub("", last)).strip() or demangled.strip()
    short = printable(re.sub(r"\s+(?=[>*&])", "", " ".join(_LITERAL.sub(r"\1", plain).split())))
    return short if len(short) <= most else short[: max(most, len(CUT)) - len(CUT)] + CUT


def distinct(demangled: Sequence[str], most: int = MOST) -> list[str]:
    """Return a short name for each launched function, in their order; the launches of one function share it.

    Template arguments are only shown where instances of one template have to be told apart.
    """
    instances: dict[str, set[str]] = {}
    for name in demangled:
        instances.setdefault(function(name), set()).add(name)
    short = {name: _among(name, instances[function(name)], most) for name in dict.fromkeys(demangled)}
    taken: dict[str, list[str]] = {}
    for name, text in short.items():
        taken.setdefault(text, []).append(name)
    for text, names in taken.items():  # still the same: cut at the same place, or overloads
        for number, name in enumerate(names, start=1):
            short[name] = text if len(names) == 1 else f"{text} ({number})"
    return [short[name] for name in demangled]


def _among(name: str, instances: set[str], most: int) -> str:
    return shorten(name if len(instances) > 1 else function(name), most)


def stem(entry: str) -> str:
    """Return what to call a file or folder: its own name without the suffix."""
    name = PurePosixPath(entry).name
    known = next((suffix for suffix in SUFFIXES if name.endswith(suffix)), "")
    return printable(name.removesuffix(known)) or entry


def printable(text: str) -> str:
    """Return a text without what would move a terminal's cursor or change its colours."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def program(argv: Sequence[str]) -> str:
    """Return what a program is called: its file's name, or that of the script or module that Python is to run."""
    first = PurePosixPath(argv[0]).name if argv else ""
    if not _INTERPRETERS.match(first):
        return first or "program"
    words = iter(argv[1:])
    for word in words:
        if word == "-m":
            return next(words, first)
        if word == "-c":
            return first
        if word in ("-W", "-X"):
            next(words, "")
        elif not word.startswith("-"):
            return PurePosixPath(word).stem or first
    return first


# ---------------------------------------------------------------------------------------------- reading a name


def _entity(demangled: str) -> str:
    """Return the qualified name, with its template arguments, out of a whole signature."""
    text = _UNNAMED.sub("", re.sub(r"\s*\[clone [^]]*\]", "", demangled.strip()))
    ends = next((place for place, kind in _top_level(text) if kind == "(" and place), len(text))
    spaces = [place for place, kind in _top_level(text[:ends].rstrip()) if kind == " "]
    return text[spaces[-1] + 1 if spaces else 0 : ends].strip()


def _parts(entity: str) -> Iterator[str]:
    """Yield what stands between the ``::`` of a qualified name; those within brackets do not part it."""
    start = 0
    for place, kind in _top_level(entity):
        if kind == ":" and entity[place : place + 2] == "::" and place >= start:
            yield entity[start:place]
            start = place + 2
    yield entity[start:]


def _head(part: str) -> str:
    """Return a part of a name without its brackets."""
    ends = next((place for place, kind in _top_level(part) if kind in "<(" and place), len(part))
    return part[:ends]


def _top_level(text: str) -> Iterator[tuple[int, str]]:
    """Yield the place of each character outside of all brackets, and of each outermost opening bracket.

    Brackets that belong to an operator's name are none. A bracket that is never closed counts as opened, one that
    was never opened as a letter.
    """
    letters = {place for found in _OPERATOR.finditer(text) for place in range(*found.span(1))}
    opened: list[str] = []
    for place, letter in enumerate(text):
        if place in letters or (letter == ">" and text[place - 1 : place] == "-"):
            continue
        if letter in _OPEN:
            if not opened:
                yield place, letter
            opened.append(letter)
        elif letter in _CLOSE:
            if _PAIRS[letter] in opened:
                while opened.pop() != _PAIRS[letter]:
                    pass
        elif not opened:
            yield place, letter
