"""What a client may read and run; answers and their pages, a call in its own process, and `list_kernels`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from ncu_swizzle.base import bounds, child, errors, paths
from ncu_swizzle.base.bounds import LONGEST_ANSWER
from ncu_swizzle.base.errors import (
    Hint,
    LaunchLacking,
    NcuSwizzleError,
    ProgramFailed,
    TimeLimit,
    Typed,
    UnknownKernel,
    Untrusted,
    UsageError,
)
from ncu_swizzle.base.files import is_same_file, parse_json, read_bytes, write_json
from ncu_swizzle.base.texts import Sizes, in_json, visible
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.base.validate import from_plain
from ncu_swizzle.engines import launchless
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.launchless import CompiledKernel
from ncu_swizzle.engines.settings import Done, Progress, Request, silent
from ncu_swizzle.kernels import check, fills, naming, project
from ncu_swizzle.kernels.family import BYTES, PYTHON, SOURCE, Family, Kernel, Target, is_kernel_file, split_name
from ncu_swizzle.kernels.options import CatalogOptions, KernelDescription, PairOptions
from ncu_swizzle.kernels.project import KernelSpec
from ncu_swizzle.kernels.signature import arguments
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports.options import EMULATED, NCU

# What a client may read and run, and where its progress goes.

# How a kernel is launched, as a client describes it: the fields of ncu-swizzle.toml's entries.

LISTS = ("args", "define", "include", "option")
RENAMED = {"kernel": "entry", "option": "tuning"}  # fields with other names in the commands


@dataclass(frozen=True, kw_only=True)
class LaunchGiven:
    """One launch of a kernel in a file; fields are empty if ncu-swizzle.toml or the file has them."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - for schemas made of this class: no field is ignored

    kernel: str = ""  # the function
    grid: Sizes = ""
    block: Sizes = ""
    shared: str | int = ""
    args: tuple[str, ...] = ()
    problem: Mapping[str, int] = field(default_factory=dict)
    define: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    std: str = ""
    option: tuple[str, ...] = ()  # of a kernel written in Python: num_warps=8
    arch: str = ""
    sample: int | None = None

    @classmethod
    def of_json(cls, content: Mapping[str, Any] | None) -> LaunchGiven:
        """Parse what a client sent; raise UsageError for an unknown field."""
        fields_sent: dict[str, Any] = dict(content or {})
        names = [own_field.name for own_field in fields(cls)]
        for name in fields_sent:
            if name not in names:
                raise UsageError(f"launch has no field {name!r}", f"its fields: {', '.join(names)}")
        return from_plain(cls, fields_sent)

    def description(self, sources: CatalogOptions = CatalogOptions()) -> KernelDescription:
        """Return the description that all commands take. Raises UsageError."""
        keywords = {name: value for name, value in self.keywords().items() if name != "problem"}
        return PairOptions(**keywords).description(self.problem, sources)

    def as_json(self) -> dict[str, Any]:
        """Return the non-empty fields, as a client sends them."""
        given = {name: value for name, value in vars(self).items() if value not in ("", (), {}, None)}
        return {name: list(value) if name in LISTS else value for name, value in given.items()}

    def keywords(self) -> dict[str, Any]:
        """Return the non-empty fields as keywords of `commands.api`."""
        return {RENAMED.get(name, name): value for name, value in self.as_json().items()}


# What a client may read, write and run: files below the folders that the server was started with.

ALLOW_RUN = "start the server with --allow-run"
AUTO = "auto"
HEADERS = (".cuh", ".h", ".hpp")


@dataclass(frozen=True)
class Folders:
    """The folders, and whether the client's own programs may run: kernels on the GPU, files of Python."""

    roots: tuple[Path, ...]
    allow_run: bool = False

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> Folders:
        """Return what `as_json` gave."""
        return from_plain(cls, content)

    def as_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"roots": list(map(str, self.roots)), "allow_run": self.allow_run}

    def holds(self, path: Path) -> bool:
        """Return whether a path, with all links followed, is in one of the folders."""
        real = Path(os.path.realpath(path))
        return any(real.is_relative_to(os.path.realpath(root)) for root in self.roots)

    def path(self, text: str | Path) -> Path:
        """Resolve a path; raise Untrusted if it leads out of the folders."""
        if "\0" in str(text):
            raise UsageError(f"{str(text)!r} is not a path", "leave out the NUL character")
        path = Path(text)
        if not self.holds(path):
            named = ", ".join(map(str, self.roots))
            raise Untrusted(f"{text} is outside of the folders of this server", f"name a file in {named}")
        return path

    def refuse_running(self, what: str) -> None:
        """Raise Untrusted unless programs may run."""
        if not self.allow_run:
            raise Untrusted(f"{what}, and this server runs no programs", ALLOW_RUN)

    def engine(self, engine: str) -> str:
        """Return the engine to use: one that launches nothing, unless programs may run. Raises Untrusted."""
        if self.allow_run:
            return engine
        if engine == NCU:
            self.refuse_running("engine ncu launches the kernel on this machine's GPU")
        return EMULATED if engine == AUTO else engine

    def kernel(self, entry: str, launch: LaunchGiven) -> str:
        """Return the project's file to read for a kernel, or "none"; raise Untrusted for a forbidden file.

        Raises UsageError for a header, which is not a source by itself.

        `entry` is a kernel's name, or a file. A project's file outside of the folders does not exist for us; files
        that one inside names must also be inside.
        """
        file, _ = split_name(entry)
        if named_file := self.is_path(entry):
            self.source(file)
            if file.suffix in HEADERS:
                raise UsageError(f"{entry} is a header", "name a .cu file that includes it")
        for named in launch.include:
            self.path(named)
        for text in launch.args:  # not parsed, which would open the files
            for kind, part in pairwise(["", *map(str.strip, re.split("[=:,]", text))]):
                if part.endswith(fills.FILE) or (kind == BYTES and not part.isdecimal()):
                    self.path(part)
        config = self.config(file.absolute().parent if named_file else Path.cwd())
        try:
            description = launch.description(CatalogOptions(config))
            if not is_kernel_file(entry):  # whatever the sizes are
                description = replace(description, problem={})
            targets = naming.resolve([entry], description)[0].targets
        except Untrusted:
            raise
        except NcuSwizzleError:  # the call itself will say so
            return config
        for target in targets:
            self.target(target)
        return config

    def is_path(self, entry: str) -> bool:
        """Return whether an entry names a file or a folder."""
        return Path(entry).suffix in HEADERS or is_kernel_file(entry) or os.sep in entry or Path(entry).exists()

    def source(self, file: Path) -> None:
        """Raise Untrusted for a source that must not be read, or run in order to be compiled."""
        self.path(file)
        if file.suffix == PYTHON:
            self.refuse_running(f"compiling a kernel of {file.name} imports that file")

    def config(self, start: Path) -> str:
        """Return the nearest project's file inside the folders, or "none"."""
        nearest = project.nearest_project(start, within=self.holds)
        return str(nearest.file) if nearest else project.NONE

    def target(self, target: Target) -> None:
        """Raise Untrusted unless all files of a kernel may be read."""
        if not target.family.shipped and not target.kernel.library:
            self.source(target.source)
            for argument in target.family.arguments:
                if argument.file:
                    self.path(argument.file)


# Hints for clients, which make calls with a launch and do not type commands.

FIELDS = {"arg": "args"}  # options with other names in a launch
OF_KERNELS = ("profile", "suggest", "explain")  # commands that are calls about one kernel, too


def hint(error: NcuSwizzleError) -> Hint:
    """Return what a client can send next: the typed command as a call, or as the launch of the same call."""
    lacking = error.__cause__ if isinstance(error.__cause__, LaunchLacking) else error  # said in keywords of Python
    if isinstance(lacking, LaunchLacking):
        hint = check.completed(lacking)
        if hint.startswith("--"):
            return Hint(f"launch={in_json(check.keywords(hint)).strip()}")
        if isinstance(lacking.spec, project.KernelSpec) and not lacking.spec.to_do:
            call = in_json({"file": str(lacking.spec.source)}).strip()
            return Hint(f"list_kernels {call} answers what is known of its launch")
    if isinstance(error, UnknownKernel):
        return Hint("list_kernels names all kernels; with file, those in a file")
    return Hint(*(_sent(part) if isinstance(part, Typed) else part for part in error.hint.parts))


def _sent(typed: Typed) -> str:
    """Return what a client sends in place of what is typed; the same text if it has no such call."""
    match typed.words:
        case ["ncu-swizzle", "list"]:
            return "list_kernels"
        case ["ncu-swizzle", command, kernel] if command in OF_KERNELS:
            return f"{command} {in_json({'kernel': kernel}).strip()}"
        case ["--timeout" | "--budget", seconds]:
            return f"the server's option --timeout {seconds}"
        case words:
            launch = _launch(words)
            return f"launch={in_json(launch).strip()}" if launch else typed


def _launch(words: Sequence[str]) -> dict[str, Any]:
    """Return options of the command line as the fields of a launch; nothing if a launch has no such field."""
    arguments: dict[str, Any] = {}
    names = {own_field.name for own_field in fields(LaunchGiven)}
    for option, value in zip(words[::2], words[1::2], strict=False):
        name = FIELDS.get(option.removeprefix("--"), option.removeprefix("--"))
        if name not in names or len(words) % 2:
            return {}
        if name == "problem":
            size, _, number = value.partition("=")
            arguments.setdefault(name, {})[size] = int(number) if number.isdecimal() else number
        elif name in LISTS:
            arguments.setdefault(name, []).append(value)
        else:
            arguments[name] = int(value) if name == "sample" and value.isdecimal() else value
    return arguments


@dataclass(frozen=True)
class Caller:
    """A client of the server."""

    folders: Folders
    progress: Progress = silent
    timeout_s: float = 600

    def request(self, launch: LaunchGiven, engine: str = AUTO) -> Request:
        """Return the request for profiles of a kernel. Raises Untrusted for an engine that runs what must not run."""
        return Request(
            engine=self.folders.engine(engine), problem=dict(launch.problem), timeout_s=self.timeout_s,
            budget_s=self.timeout_s,
        )  # fmt: skip

    def keywords(self, launch: LaunchGiven, engine: str = AUTO) -> dict[str, Any]:
        """Return the keywords of `commands.api` for profiles of kernels. Raises Untrusted as `request` does."""
        limits = {"timeout": self.timeout_s, "budget": self.timeout_s, "on_progress": self.progress}
        return {"engine": self.folders.engine(engine), **limits, **launch.keywords()}

    def sources(self, entry: str, launch: LaunchGiven) -> CatalogOptions:
        """Return where kernels are described, after a look at what the kernel would read. Raises Untrusted."""
        return CatalogOptions(config=self.folders.kernel(entry, launch))

    def entries(self, entries: Sequence[str], launch: LaunchGiven) -> CatalogOptions:
        """Return where the kernels among entries are described; all of their files must be inside.

        Raises UsageError for kernels of different projects: one of them describes all kernels of a call.
        """
        configs = {entry: self.folders.kernel(entry, launch) for entry in entries}
        described = {
            config: entry
            for entry, config in reversed(configs.items())
            if is_kernel_file(entry) or not self.folders.is_path(entry)
        }
        if len(described) > 1:
            second, first, *_ = described.values()
            raise UsageError(
                f"{first} and {second} belong to different projects", "make one call for the entries of each project"
            )
        return CatalogOptions(config=next(iter(described or configs.values()), ""))

    def again(self, entry: str, launch: LaunchGiven, name: str = "") -> dict[str, Any]:
        """Return the launch for a call about the same kernel, or the one of this name where several are described."""
        fields_sent = launch.as_json()
        if name and is_kernel_file(entry) and not split_name(entry)[1]:
            fields_sent["kernel"] = launch.kernel or name
        return {"launch": fields_sent} if fields_sent else {}


def shown(path: str | Path) -> str:
    """Return a path as a client names it: relative to the current folder if it lies below."""
    whole = Path(path)
    return str(whole.relative_to(Path.cwd())) if whole.is_absolute() and whole.is_relative_to(Path.cwd()) else str(path)


def without_empty(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without its empty texts; None stays, it means unknown."""
    return {name: value for name, value in row.items() if value not in ("", (), [])}


# Answers and their pages, a call in its own process, and the quickest call: `list_kernels`.

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
