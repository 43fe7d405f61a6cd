"""Answers and their pages, a call in its own process, and the quickest call: `list_kernels`."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ncu_swizzle.base import bounds, child, errors, paths
from ncu_swizzle.base.bounds import LONGEST_ANSWER
from ncu_swizzle.base.errors import NcuSwizzleError, ProgramFailed, TimeLimit, UsageError
from ncu_swizzle.base.files import is_same_file, parse_json, read_bytes, write_json
from ncu_swizzle.base.texts import in_json, visible
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.base.validate import from_plain
from ncu_swizzle.engines import launchless
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.launchless import CompiledKernel
from ncu_swizzle.engines.settings import Done
from ncu_swizzle.kernels import naming
from ncu_swizzle.kernels.family import SOURCE, Family, Kernel, split_name
from ncu_swizzle.kernels.options import CatalogOptions
from ncu_swizzle.kernels.project import KernelSpec
from ncu_swizzle.kernels.signature import arguments
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.servers.folders import Caller, Folders, LaunchGiven, shown, without_empty

# What a call answers, and its pages: an agent reads a few thousand characters at a time, not a table of all lines.

MOST_CHARACTERS = 5600  # of a page: about 2,000 tokens at 2.8 characters each, as numbers and code have them
LONGEST_TEXT = 3600  # of one value; a longer one continues in the next row

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Call:
    """A call ready to be made: the tool's name and its arguments; `why` says what it is for."""

    tool: str
    arguments: Mapping[str, Any]
    why: str = ""

    @property
    def words(self) -> str:
        """The call in one line."""
        return f"{self.tool} {in_json(self.arguments).strip()}{f' {self.why}' if self.why else ''}"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A summary of a few sentences, rows of plain data, and the next sensible call, if there is one."""

    summary: str
    rows: tuple[Row, ...] = ()
    next: Call | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)  # the engine, the verdict: what applies to all rows

    def as_json(self) -> dict[str, Any]:
        """Return plain data, to leave the process."""
        return asdict(self)

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> Answer:
        """Return the answer that `as_json` encoded."""
        return from_plain(cls, content)


def stamp(path: str) -> tuple[str, int, int]:
    """Return a file with its time of modification in ns and its size; zeros if it does not exist."""
    try:
        status = os.stat(path)  # noqa: PTH116 - called for every header, each time a source is opened
    except OSError:
        return path, 0, 0
    return path, status.st_mtime_ns, status.st_size


@dataclass(frozen=True, kw_only=True)
class Page:
    """One page of an answer, as structured content and as text."""

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
        following = asdict(self._next) if self._next else {}
        call = {"next": {name: value for name, value in following.items() if value != ""}} if following else {}
        return {**first, **rows, **more, **call}

    def text(self) -> str:
        """Return the page as text: a line per row."""
        first = [self.answer.summary, *_lines([self.answer.facts])] if self.number == 1 else []
        last = [f"page {self.number} of {self.pages}"] if self.pages > 1 else []
        last += [f"next: {self._next.words}"] if self._next else []
        return visible("\n".join([*first, *_lines(self.rows), *last]))

    @property
    def _next(self) -> Call | None:
        if self.number < self.pages:
            return Call(self.call.tool, {**self.call.arguments, "page": self.number + 1})
        return self.answer.next


def page(answer: Answer, call: Call, number: int = 1, most: int = MOST_CHARACTERS) -> Page:
    """Return a page of the answer to a call; raise UsageError if it has none with this number."""
    pages = list(_pages(answer, most - len(call.words)))
    if not 1 <= number <= len(pages):
        raise UsageError(f"there is no page {number}", f"page is at least 1 and at most {len(pages)}")
    return Page(answer=answer, rows=tuple(pages[number - 1]), number=number, pages=len(pages), call=call)


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
        rest = [{long: chunk} for chunk in _chunks(row[long])]
        yield from _split([{**others, **rest[0]}])
        yield from rest[1:]


def _length(text: str) -> int:
    """Return the length of a text as it is sent: JSON may need twelve characters for one."""
    return len(in_json(text))


def _chunks(text: str) -> Iterator[str]:
    """Split a text at the ends of lines, and longer lines anywhere, into chunks that one field may hold."""
    chunk, length = "", 0
    for line in text.splitlines(keepends=True):
        step = LONGEST_TEXT if _length(line) <= LONGEST_TEXT else LONGEST_TEXT // 16
        for piece in (line[start : start + step] for start in range(0, len(line), step)):
            if chunk and length + _length(piece) > LONGEST_TEXT:
                yield chunk
                chunk, length = "", 0
            chunk, length = chunk + piece, length + _length(piece)
    if chunk:
        yield chunk


def _lines(rows: Sequence[Row]) -> list[str]:
    """Return a line per row with content; None is printed as unknown."""
    lines = []
    for row in rows:
        cells = []
        for name, value in row.items():
            if value is None:
                cells.append(f"{name}: unknown")
            elif value not in ("", [], {}):
                text = value if isinstance(value, str) else in_json(value).strip()
                cells.append(f"{name}:\n{text}" if "\n" in text else f"{name}: {text}")
        if cells:
            lines.append(", ".join(cells))
    return lines


# Make a call in its own process, which can be ended and reports progress.

REQUEST, ANSWER = "request.json", "answer.json"
MARK = "ncu-swizzle-progress "  # starts a line that tells how far a call is
LONGEST_LINE = 1 << 12

OnProgress = Callable[[float, str], None]  # percent, and the current step


@dataclass(frozen=True)
class Service:
    """Where calls may read and run, and how long a call, and each program that it runs, may take, in seconds."""

    folders: Folders
    timeout_s: float = 600

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        on_progress: OnProgress = lambda percent, words: None,
        stop: threading.Event | None = None,
    ) -> Answer:
        """Return the answer to a call; raise what the call raises, and Interrupted once `stop` is set.

        Nothing that the call started is left running.
        """
        with scratch() as folder:
            request = {
                "call": name,
                "arguments": dict(arguments),
                "folders": self.folders.as_json(),
                "timeout_s": self.timeout_s,
            }
            write_json(folder / REQUEST, request)
            try:
                ended = child.run(
                    [sys.executable, "-m", "ncu_swizzle.servers", str(folder)],
                    self.timeout_s,
                    environment=paths.child_environment(),
                    on_output=_Lines(on_progress).hear,
                    stop=stop,
                )
            except TimeLimit:
                hint = "name fewer files, or a smaller launch; the server's --timeout SECONDS allows more"
                raise TimeLimit(f"{name} took longer than {self.timeout_s:g} s", hint) from None
            try:
                content = parse_json(read_bytes(folder / ANSWER, largest=LONGEST_ANSWER), ANSWER)
            except NcuSwizzleError:
                last = bounds.last_lines(ended.log)
                raise ProgramFailed(
                    f"{name} ended with status {ended.status}; its last lines:\n{last}", "call it again"
                ) from None
        if problem := content.get("error"):
            raise errors.of_json(problem)
        return Answer.of_json(content["answer"])


def progress_line(name: str, done: Done) -> str:
    """Return the line that tells how far a call is, in percent."""
    return MARK + in_json([100 * done.fraction, f"{name}: {done.words}" if done.words else name])


@dataclass
class _Lines:
    """Splits output that comes in pieces into lines."""

    on_progress: OnProgress
    rest: str = field(default="")

    def hear(self, text: str) -> None:
        *lines, rest = (self.rest + text).split("\n")
        self.rest = rest[:LONGEST_LINE]
        for line in lines:
            with contextlib.suppress(ValueError, TypeError):  # programs of the call may print anything
                if line.startswith(MARK):
                    percent, words = json.loads(line.removeprefix(MARK))
                    self.on_progress(float(percent), str(words))


def list_kernels(caller: Caller, file: str = "") -> Answer:
    """Answer the kernels of a file, with what is known of launches; without one, of the project and the catalogue."""
    if file:
        return _of_file(caller, file)
    config = caller.folders.config(Path.cwd())
    rows = [_row(family, kernel) for family, kernel in naming.catalogue(CatalogOptions(config))]
    rows.sort(key=lambda row: "file" not in row)  # the project's first
    following = next((Call("lint", {"files": [row["file"]]}) for row in rows if "file" in row), None)
    summary = f"{len(rows)} kernels; those with a file are the project's."
    return Answer(summary=summary, rows=tuple(rows), next=following)


def _row(family: Family, kernel: Kernel) -> Row:
    source = "" if family.shipped else shown(family.source(kernel))
    return without_empty({"name": kernel.name, "file": source, "title": kernel.title, "baseline": kernel.baseline})


def _of_file(caller: Caller, file: str) -> Answer:
    caller.folders.source(split_name(file)[0])
    config = caller.folders.kernel(file, LaunchGiven())
    source = Path(file)
    described = [
        (family, kernel)
        for family, kernel in naming.catalogue(CatalogOptions(config))
        if not family.shipped and is_same_file(family.source(kernel), source)
    ]
    settings = EmulationSettings(Toolchain(timeout_s=caller.timeout_s))
    spec = KernelSpec(name=source.stem, source=source)
    if source.suffix == SOURCE:
        kernels = launchless.of_source(spec, settings).kernels
    else:
        kernels = launchless.of_built(source, settings).kernels
    others = tuple(
        _known(kernel) for kernel in kernels if not any(_names(variant, kernel.spelled) for _, variant in described)
    )
    words = "; a launch takes grid, block, and args: replace each TODO" if others else ", with described launches"
    rows = (*({**_row(*variant), "described": True} for variant in described), *others)
    return Answer(summary=f"{file}: {len(kernels)} kernels{words}.", rows=rows, next=Call("lint", {"files": [file]}))


def _known(kernel: CompiledKernel) -> Row:
    """Return what is known about a kernel's launch: its blocks, and each argument, with TODO for the rest."""
    blocks = [shape for shape in kernel.blocks() if shape.certain]
    texts = [text for text, _ in arguments(kernel.signature.parameters)]
    return without_empty({
        "function": kernel.spelled,
        "launch": without_empty({"block": ",".join(map(str, blocks[0].sizes)) if blocks else "", "args": texts}),
    })  # fmt: skip


def _names(kernel: Kernel, function: str) -> bool:
    """Return whether a kernel names a demangled function, maybe without its template arguments."""
    base = function.partition("<")[0].partition("(")[0]
    return kernel.entry in ("", function, base, base.rpartition("::")[2])
