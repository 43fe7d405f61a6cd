"""Texts: one or several, problem sizes, and the borders at which texts leave the program.

Kernel names, file names, source lines and quoted messages come from reports, checkouts and other programs. Each output
has one function here that makes such text harmless there: `on_terminal`, `on_page`, `in_markdown`, `in_csv` and
`in_json`; `one_line` is for a single field, such as a name in a line of a log.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

# A dataclass field that commands take as an option, with its help, flags and choices.
#
# `commands.groups` turns such fields into command-line options, and the Python API takes them as keywords, so that an
# option shared by several commands is described once.

KEY = "option"


@dataclasses.dataclass(frozen=True)
class Option:
    """A field as a command-line option; the default flag is ``--`` and its name."""

    help: str
    metavar: str = ""
    flags: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    common: bool = False  # shown by --help; --help-all shows all


def option(default: Any, *described: Any, **described_by_name: Any) -> Any:
    """Return a dataclass field with this default that is also an option, described by the fields of `Option`."""
    metadata = {KEY: Option(*described, **described_by_name)}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


Texts = str | Sequence[str]  # one text, or several
Sizes = int | str | Sequence[int | str]  # of a grid or a block: 512, "n//32,8", (32, 8), ["n//32", 8]

SHOWN_AS = "\N{REPLACEMENT CHARACTER}"
_KEPT = "\n\t"
# Printable to Python, but without ink: fillers and joiners that Unicode calls ignorable.
_WITHOUT_INK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\uffa0]")

# Commands that build services run from log lines: ::error …:: at the start, ##[error] and ##vso[…] anywhere.
_COMMAND_AT_START = re.compile(r"(?m)^([^\S\n]*):(?=:[\w-])")
_COMMAND_ANYWHERE = re.compile(r"##(?=[\w.-]*\[)")

_OURS = re.compile(r"\s*(?:error|note|try|usage)\s*:", re.IGNORECASE)  # how messages to the user start

_FORMULA = re.compile(r"""[\s"'`]*(?:[=+\-@\uff1d\uff0b\uff0d\uff20]|::)""")
# A SASS instruction after its predicate, @!P0 LDS R1, [R2]: not a function call or DDE link (program|topic!item).
_PREDICATED = re.compile(r"@!?U?P[T\d] [A-Z](?![^|\n]*+\|[^!\n]*+!)[\w .,:;+\-~!\[\]{}|/*<>&]*")
_NUMBER = re.compile(r"[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?")

_MARKUP = re.compile(r"([\\`*_\[\]|~$]|^[#+=-]|^\d+(?=[.)](?:\s|$)))")
# What GitHub links, mentions or replaces in plain text: @name, URLs, www., #12, GH-12, :name:; and ::error at a start.
_LINKED = re.compile(r"(^:(?=:)|@|:(?=//)|w(?=ww\.)|#(?=\d)|GH(?=-\d)|:(?=[\w+-]+:))")

_SURROGATES = re.compile("[\ud800-\udfff]")


def listed(texts: Texts) -> tuple[str, ...]:
    """Return the texts as a tuple."""
    return (texts,) if isinstance(texts, str) else tuple(map(str, texts))


def in_commas(sizes: Sizes) -> str:
    """Return sizes as on the command line: ``n//32,8``."""
    if isinstance(sizes, str):
        return sizes
    return ",".join(map(str, sizes)) if isinstance(sizes, Iterable) else str(sizes)


def in_crosses(sizes: Iterable[int]) -> str:
    """Return the sizes of a grid or a block as messages show them: ``64x16x4``."""
    return "x".join(map(str, sizes))


def without_last_ones(sizes: Sequence[int]) -> Sequence[int]:
    """Return the sizes of a grid or a block without the last axes that are 1; the first one stays."""
    needed = max((axis for axis, size in enumerate(sizes) if size != 1), default=0)
    return sizes[: needed + 1]


def in_words(problem: Mapping[str, int]) -> str:
    """Return a problem as on the command line: ``batch=4 heads=16 seq=4096``."""
    return " ".join(f"{name}={size}" for name, size in problem.items())


# ---------------------------------------------------------------------------------------- what may be shown


class _Shown(dict[int, str]):
    """How each character is shown, filled as they occur."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        self[code] = shown = _shown(character)
        return shown


def _shown(character: str) -> str:
    if character in _KEPT or (character.isprintable() and not _WITHOUT_INK.match(character)):
        return character
    return " " if unicodedata.category(character) == "Zs" else SHOWN_AS


_TABLE = _Shown()


def visible(text: str) -> str:
    """Return a text without anything hidden, and without characters that move the cursor or reorder text.

    Controls other than newline and tab, format characters such as those for right-to-left text, lone surrogates and
    whatever else is not printable become U+FFFD, one each. Windows line ends become newlines.
    """
    bare = text.replace("\n", "").replace("\t", "")
    if bare.isprintable() and (bare.isascii() or not _WITHOUT_INK.search(bare)):
        return text
    return re.sub(r"(?<!\r)\r++(?=\n|$)", "", text).translate(_TABLE)


def one_line(text: str) -> str:
    """Return a text as one visible line that no build service mistakes for a command: a name, a field, a message."""
    line = visible(text).replace("\n", " ").replace("\t", " ")
    return _COMMAND_ANYWHERE.sub("## ", line)


def encodable(text: str) -> str:
    """Return a text that UTF-8 can hold: bytes of a file name that are not UTF-8 become ?, as in what nvcc writes."""
    return text if text.isascii() else _SURROGATES.sub("?", text)


def message(text: str) -> str:
    """Return an error's text, visible; a later line that starts like one of ours, ``error:``, is marked as quoted."""
    first, *others = visible(text).split("\n")
    return "\n".join([first, *(f"| {line}" if _OURS.match(line) else line for line in others)])


# ---------------------------------------------------------------------------------------- the borders


def on_terminal(text: str) -> str:
    """Return text for a terminal or a log: visible, and without commands to the build service that shows the log."""
    return _COMMAND_ANYWHERE.sub("## ", _COMMAND_AT_START.sub(r"\1: ", visible(text)))


def on_page(value: object) -> str:
    """Return what a template prints, visible; markup stays markup, and anything else is escaped after this."""
    text = visible(str(value))
    return type(value)(text) if isinstance(value, str) and hasattr(value, "__html__") else text


def in_markdown(text: str) -> str:
    """Return text that Markdown shows verbatim, on one line, also in a table, without mentions and links."""
    line = " ".join(one_line(text).split())
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        line = line.replace(character, entity)
    line = _MARKUP.sub(_escaped, line)
    return _LINKED.sub(r"\1&#8203;", line)


def _escaped(match: re.Match[str]) -> str:
    return f"{match[0]}\\" if match[0].isdigit() else f"\\{match[0]}"


def in_code(text: str) -> str:
    """Return text as inline code of Markdown, also in a table."""
    line = " ".join(one_line(text).split())
    if not line or re.search(r"[`|\\]", line):  # inline code cannot hold these in a table
        return f"<code>{in_markdown(line)}</code>"
    return f"`{line}`"


def in_csv(text: str) -> str:
    """Return text for a cell of CSV: one line, with an apostrophe if a spreadsheet would read it as a formula."""
    line = one_line(text)
    harmless = not _FORMULA.match(line) or _NUMBER.fullmatch(line) or _PREDICATED.fullmatch(line)
    return line if harmless else f"'{line}"


def in_json(content: Any, indent: int | None = None, allow_nan: bool = False) -> str:
    """Return plain data as JSON in ASCII with a newline: exact when read back, and harmless on a terminal."""
    text = json.dumps(content, indent=indent, allow_nan=allow_nan)  # noqa: TID251 - what others are to use
    return _COMMAND_ANYWHERE.sub(r"#\\u0023", text) + "\n"


# ---------------------------------------------------------------------------------------- the standard streams


class Printable(io.TextIOBase):
    """A text stream that passes everything through `on_terminal`; `beneath` is where it goes."""

    def __init__(self, beneath: TextIO) -> None:
        self.beneath = beneath

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed has an attribute
        return self.beneath.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self.beneath.errors

    def write(self, text: str) -> int:
        self.beneath.write(on_terminal(text))
        return len(text)

    def flush(self) -> None:
        self.beneath.flush()

    def fileno(self) -> int:
        return self.beneath.fileno()

    def isatty(self) -> bool:
        return self.beneath.isatty()

    def writable(self) -> bool:
        return True


def beneath(stream: TextIO) -> TextIO:
    """Return the stream under a `Printable`, for programs that draw with control characters; else the stream."""
    return getattr(stream, "beneath", stream)


def prepare_streams() -> None:
    """Let stdout and stderr take any character in any encoding, and stderr only printable text."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):  # closed, or not a file
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if sys.stderr is not None and not isinstance(sys.stderr, Printable):
        sys.stderr = Printable(sys.stderr)
