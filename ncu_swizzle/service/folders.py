"""What a client may have read, written and run: files below the folders that the server was started with."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from ncu_swizzle.catalog import fills, kernel_files, project, user_kernels
from ncu_swizzle.catalog.family import BYTES, PYTHON, Argument, Family, Kernel
from ncu_swizzle.catalog.kernel_options import KernelDescription
from ncu_swizzle.errors import NcuSwizzleError, Untrusted, UsageError
from ncu_swizzle.profiles.engine import EMULATED, NCU
from ncu_swizzle.service.launch import LaunchGiven

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
        return cls(tuple(map(Path, content["roots"])), content["allow_run"])

    def as_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"roots": list(map(str, self.roots)), "allow_run": self.allow_run}

    def holds(self, path: Path) -> bool:
        """Return whether a path, with all links followed, is in one of the folders."""
        real = Path(os.path.realpath(path))
        return any(real.is_relative_to(os.path.realpath(root)) for root in self.roots)

    def path(self, text: str | Path) -> Path:
        """Return a path; raise Untrusted if it leads out of the folders."""
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
        """Return the project's file to read for a kernel, or "none"; raise Untrusted for what it must not read.

        Raises UsageError for a header, which is no source of its own.

        `entry` is a kernel's name, or a file. A project's file outside of the folders does not exist for us; what one
        inside names must be inside, too.
        """
        file, _ = kernel_files.split(entry)
        if named_file := self.is_path(entry):
            self.source(file)
            if file.suffix in HEADERS:
                raise UsageError(f"{entry} is a header", "name a .cu file that includes it")
        for named in (*_files_in(launch.args), *launch.include):
            self.path(named)
        described = launch.described()
        config = self.config(file.absolute().parent if named_file else Path.cwd())
        self._chosen(entry, described, config)
        return config

    def is_path(self, entry: str) -> bool:
        """Return whether an entry names a file or a folder."""
        return (
            Path(entry).suffix in HEADERS
            or kernel_files.is_kernel_file(entry)
            or os.sep in entry
            or Path(entry).exists()
        )

    def source(self, file: Path) -> None:
        """Raise Untrusted for a source that must not be read, or run in order to be compiled."""
        self.path(file)
        if file.suffix == PYTHON:
            self.refuse_running(f"compiling a kernel of {file.name} imports that file")

    def config(self, start: Path) -> str:
        """Return the nearest project's file that is inside, or "none"."""
        nearest = project.find(start, within=self.holds)
        for folder in nearest.catalog if nearest else ():
            self.path(folder)
        return str(nearest.file) if nearest else project.NONE

    def variant(self, family: Family, kernel: Kernel) -> None:
        """Raise Untrusted unless all files of a kernel may be read."""
        if not family.shipped and not kernel.library:
            self.source(family.source(kernel))
            for argument in family.arguments:
                self._file(argument)

    def _file(self, argument: Argument) -> None:
        if argument.file:
            self.path(argument.file)

    def _chosen(self, entry: str, described: KernelDescription, config: str) -> None:
        try:
            catalog, names = user_kernels.chosen(entry, described, (), config)
            variants = [catalog.find(name) for name in names]
        except Untrusted:
            raise
        except NcuSwizzleError:  # the call itself will say so
            return
        for family, kernel in variants:
            self.variant(family, kernel)


def _files_in(args: Sequence[str]) -> Iterator[str]:
    """Yield the files that arguments may name. Parsing them would open the files."""
    for text in args:
        for kind, part in pairwise(["", *map(str.strip, re.split("[=:,]", text))]):
            if part.endswith(fills.FILE) or (kind == BYTES and not part.isdecimal()):
                yield part
