"""Hostile text in any field of any value, and what each kind of output must be whatever a text holds."""

import csv
import dataclasses
import io
import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ncu_swizzle.base.errors import NcuSwizzleError
from tests.support.pages import PACKED, Page, unpacked

STARTS = (
    *("=cmd|' /C calc'!A0", "::error file=x::forged", "\t=1+1", ' "@SUM(1+1)', "-2+3", "+1|x!A0", "\r=1"),
    *("##[error]forged", "1. ", "# ", "--- ", "@P0 X|y!A0", "-5"),
)
PARTS = (
    "\x1b[2J\x1b[31m",  # clears the screen
    "\x1b]0;owned\x07\x1b]8;;http://x.y\x1b\\link\x1b]8;;\x1b\\",  # title, link
    "\x9b31m\x85\x90",  # C1
    "\a\b\x00\x7f\v\f",
    "\r\nover\rwritten",
    "\n::error file=x::forged\n  ::warning::forged",
    "\nerror: forged\n  try: forged",
    "##[error]forged ##vso[task.forged]x",
    "\u202eevil\u202c\u2066left\u2069\u200f\u061c",  # reorders
    "\u200b\u200d\u2060\ufeff\u00ad\u034f\u3164\U000e0041",  # hides
    "\u2028\u2029",
    "\ud800 \udcff\ufffe",
    "</script></code><img src=x onerror=alert(1)><!--",
    "' onload=alert(1) \" x",
    "]]>&lt;{{7*7}}{% raw %}",
    "[red]x[/] [/] [link=http://x.y]z[/link] \\[",
    "|`| ``` *b* _i_ ![a](http://x.y) <http://x.y> www.x.y @someone #1 ns::x::f\\",
    "$x$ ~~s~~",
    "%0A%0D%3A,;\t",
)
EVERYTHING = "".join(PARTS)
VALID = re.sub("[\ud800-\udfff]", "", EVERYTHING)  # what a saved profile may hold
ARGUMENT = re.sub("[\0/\ud800\ufffe]", "", EVERYTHING)  # as a file's name may be, but for its length
NAME = ARGUMENT.encode(errors="surrogateescape")[:200].decode(errors="ignore")

_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"

Change = Callable[[str], str]


def poisoned(value: Any, change: Change, only: Collection[str] = ()) -> Any:
    """Return a value with its texts changed, in dataclasses, mappings and sequences; `only` in these fields."""
    return _with_texts(value, lambda text, field: text if only and field not in only else change(text))


def text_fields(value: Any) -> list[str]:
    """Return the fields that hold texts, as Class.field, wherever they are in a value."""
    fields: dict[str, None] = {}

    def note(text: str, field: str) -> str:
        fields[field] = None
        return text

    _with_texts(value, note)
    return list(fields)


def _with_texts(value: Any, changed: Callable[[str, str], str], field: str = "") -> Any:
    """Return a value with what `changed` makes of each text in it and of the field that holds the text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
        name = type(value).__name__
        made = {key: _with_texts(part, changed, f"{name}.{key}") for key, part in parts.items()}
        return dataclasses.replace(value, **made)
    if isinstance(value, Mapping):
        return dict(_with_texts(list(value.items()), changed, field))
    if isinstance(value, tuple | list):
        return type(value)(_with_texts(part, changed, field) for part in value)
    if isinstance(value, NcuSwizzleError):
        return type(value)(changed(str(value), field), changed(value.hint, field))
    if isinstance(value, Path):
        return Path(changed(str(value), field).replace("\0", ""))
    return changed(value, field) if isinstance(value, str) and not isinstance(value, Enum) else value


def hidden(text: str) -> list[str]:
    """Return what in a text cannot be seen, or moves other text."""
    return sorted(
        {
            f"U+{ord(character):04X}"
            for character in set(text)
            if character not in "\n\t" and (unicodedata.category(character) in _INVISIBLE or character in _FILLERS)
        }
    )


def commands(text: str) -> list[str]:
    """Return the lines that a build service would run as commands."""
    return [line for line in text.split("\n") if re.match(r"\s*::[\w-]+.*?::", line) or re.search(r"##[\w.-]*\[", line)]


def check_terminal(text: str) -> None:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)  # rich's styles
    assert hidden(plain) == []
    assert commands(plain) == []


def check_html(text: str) -> None:
    assert hidden(text) == []
    page = Page(text)
    assert not {"img", "iframe", "object", "embed", "base", "form"} & set(page.tags)
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert all(target.startswith("#") for target in (*page.values("href"), *page.values("src")))
    for script in page.scripts[:-1]:
        json.loads(unpacked(script) if script.startswith(PACKED) else script)


def check_svg(text: str) -> None:
    check_xml(text)
    assert "<img" not in text


def check_markdown(text: str) -> None:
    assert hidden(text) == []
    assert commands(text) == []
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
    inline = [child for token in tokens for child in token.children or ()]
    assert not {"link_open", "image", "s_open"} & {child.type for child in inline}
    own = re.compile(r"</?(?:details|summary|sub|code)>")
    raw = [token.content for token in (*tokens, *inline) if token.type in ("html_block", "html_inline")]
    assert not [html for html in raw for tag in re.findall(r"<[^>]*>?", html) if not own.fullmatch(tag)]
    shown = ["".join(child.content for child in token.children or () if child.type == "text") for token in tokens]
    for name in ("@someone", "http://", "www.", "#1 ", ":x:"):
        assert name not in "\n".join(shown), name
    paragraphs = [inline.content for opening, inline in pairwise(tokens) if opening.type == "paragraph_open"]
    assert not [text for text in paragraphs if text.startswith("| ")], "each is in the table that it was meant for"


def check_csv(text: str) -> None:
    import pandas as pd

    assert hidden(text) == []
    assert commands(text) == []
    rows = list(csv.reader(io.StringIO(text)))
    assert len({len(row) for row in rows}) == 1
    assert len(rows) == text.count("\n")
    assert len(pd.read_csv(io.StringIO(text))) == len(rows) - 1
    for cell in (cell for row in rows for cell in row):
        harmless = re.fullmatch(r"[+-]?[\d.]+(e[+-]?\d+)?|@!?U?P[T\d] [A-Z][^(!=]*", cell)  # numbers, and SASS
        assert harmless or not re.match(r"""[\s"`]*[=+\-@]""", cell), cell


def check_json(text: str) -> None:
    assert text.isascii()
    assert hidden(text) == []
    assert commands(text) == []
    json.loads(text)


def check_xml(text: str) -> None:
    assert hidden(text) == []
    ElementTree.fromstring(text)


CHECKS: dict[str, Callable[[str], None]] = {
    "terminal": check_terminal,
    "html": check_html,
    "svg": check_svg,
    "md": check_markdown,
    "csv": check_csv,
    "json": check_json,
    "sarif": check_json,
    "xml": check_xml,
}


def texts_in(data: Any) -> Iterator[str]:
    """Yield every text in parsed JSON."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping):
        yield from data
        for part in data.values():
            yield from texts_in(part)
    elif isinstance(data, list):
        for part in data:
            yield from texts_in(part)


def outputs_below(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of every file below a folder that a check knows."""
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file.suffix[1:] in CHECKS:
            yield file.suffix[1:], file.read_bytes().decode()
