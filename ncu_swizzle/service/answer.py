"""What a call answers, and its pages: an agent reads a few thousand characters at a time, not a table of all lines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ncu_swizzle.errors import UsageError
from ncu_swizzle.texts import in_json, visible

MOST_CHARACTERS = 5600  # of a page: about 2,000 tokens at 2.8 characters each, as numbers and code have them
LONGEST_TEXT = 3600  # of one value; a longer one goes on in the next row

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Call:
    """A call that can be made as it is: the tool's name and its arguments; `why` says what it is for."""

    tool: str
    arguments: Mapping[str, Any]
    why: str = ""

    @property
    def words(self) -> str:
        """The call in one line."""
        return f"{self.tool} {in_json(self.arguments).strip()}{f' {self.why}' if self.why else ''}"


@dataclass(frozen=True)
class Answer:
    """A summary of a few sentences, rows of plain data, and the next sensible call, if there is one."""

    summary: str
    rows: tuple[Row, ...] = ()
    next: Call | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)  # the engine, the verdict: what applies to all rows

    def as_json(self) -> dict[str, Any]:
        """Return plain data, for the way out of the process."""
        return asdict(self)

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> Answer:
        """Return what `as_json` gave."""
        following = content["next"] and Call(**content["next"])
        return cls(content["summary"], tuple(content["rows"]), following, content["facts"])


def stamp(path: str) -> tuple[str, int, int]:
    """Return a file with its time of modification in ns and its size; zeros if it does not exist."""
    try:
        found = os.stat(path)  # noqa: PTH116 - called for every header, each time a source is opened
    except OSError:
        return path, 0, 0
    return path, found.st_mtime_ns, found.st_size


@dataclass(frozen=True)
class Page:
    """One page of an answer: what a client gets as structured content, and in words."""

    answer: Answer
    rows: tuple[Row, ...]
    number: int
    pages: int
    call: Call  # that this answers

    def data(self) -> dict[str, Any]:
        """Return the page as structured content."""
        more = {"page": self.number, "pages": self.pages} if self.pages > 1 else {}
        first = {"summary": self.answer.summary, **self.answer.facts} if self.number == 1 else {}
        rows = {"rows": list(self.rows)} if self.rows else {}
        return {**first, **rows, **more, **({"next": _data(self._next)} if self._next else {})}

    def text(self) -> str:
        """Return the page in words: a line per row."""
        first = [self.answer.summary, *_lines([self.answer.facts])] if self.number == 1 else []
        last = [f"page {self.number} of {self.pages}"] if self.pages > 1 else []
        return visible(
            "\n".join([*first, *_lines(self.rows), *last, *([f"next: {self._next.words}"] if self._next else [])])
        )

    @property
    def _next(self) -> Call | None:
        if self.number < self.pages:
            return Call(self.call.tool, {**self.call.arguments, "page": self.number + 1})
        return self.answer.next


def _data(call: Call) -> Row:
    return {name: value for name, value in asdict(call).items() if value != ""}


def page(answer: Answer, call: Call, number: int = 1, most: int = MOST_CHARACTERS) -> Page:
    """Return a page of the answer to a call; raise UsageError if it has none with this number."""
    pages = list(_pages(answer, most - len(call.words)))
    if not 1 <= number <= len(pages):
        raise UsageError(f"there is no page {number}", f"page is at least 1 and at most {len(pages)}")
    return Page(answer, tuple(pages[number - 1]), number, len(pages), call)


def _pages(answer: Answer, most: int) -> Iterator[list[Row]]:
    """Yield the rows of each page; the first has the summary, too."""
    rows: list[Row] = []
    left = most - len(answer.summary) - len(in_json(answer.facts)) - len(answer.next.words if answer.next else "")
    for row in _split(answer.rows):
        size = len(in_json(row))
        if rows and size > left:
            yield rows
            rows, left = [], most
        rows.append(row)
        left -= size
    yield rows


def _split(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the rows, one with a long text (code, a patch) as several, cut between lines."""
    for row in rows:
        long = next(
            (name for name, value in row.items() if isinstance(value, str) and _length(value) > LONGEST_TEXT), ""
        )
        if not long:
            yield row
            continue
        others = {name: value for name, value in row.items() if name != long}
        rest = [{long: part} for part in _parts(row[long])]
        yield from _split([{**others, **rest[0]}])
        yield from rest[1:]


def _length(text: str) -> int:
    """Return the length of a text as it is sent: JSON may need twelve characters for one."""
    return len(in_json(text))


def _parts(text: str) -> Iterator[str]:
    part, length = "", 0
    for line in text.splitlines(keepends=True):
        step = LONGEST_TEXT if _length(line) <= LONGEST_TEXT else LONGEST_TEXT // 16
        for piece in (line[start : start + step] for start in range(0, len(line), step)):
            if part and length + _length(piece) > LONGEST_TEXT:
                yield part
                part, length = "", 0
            part, length = part + piece, length + _length(piece)
    if part:
        yield part


def _lines(rows: Sequence[Row]) -> list[str]:
    return [line for row in rows if (line := ", ".join(_cells(row)))]


def _cells(row: Row) -> Iterator[str]:
    for name, value in row.items():
        if value in (None, "", [], {}):
            if value is None:
                yield f"{name}: unknown"
            continue
        shown = value if isinstance(value, str) else in_json(value).strip()
        yield f"{name}:\n{shown}" if "\n" in shown else f"{name}: {shown}"
