"""What a client may read and run, and where its progress goes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from ncu_swizzle.base.errors import Hint, LaunchLacking, NcuSwizzleError, Typed, UnknownKernel, Untrusted, UsageError
from ncu_swizzle.base.texts import Sizes, in_json
from ncu_swizzle.base.validate import from_plain
from ncu_swizzle.engines.settings import Progress, Request, silent
from ncu_swizzle.kernels import check, fills, naming, project
from ncu_swizzle.kernels.family import BYTES, PYTHON, Target, is_kernel_file, split_name
from ncu_swizzle.kernels.options import CatalogOptions, KernelDescription, PairOptions
from ncu_swizzle.reports.options import EMULATED, NCU

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
