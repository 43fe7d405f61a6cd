"""The machine as `doctor` and the search for ncu see it: files, the environment, other programs.

All their queries go through a `System`, so tests can substitute one. Nothing here raises: what is unavailable is None,
empty or False.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle import child
from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.ncu import gpu

QUICK_S = 20.0  # the time limit of a program that only prints something


@dataclass(frozen=True)
class Ran:
    """A program's exit status and output."""

    status: int
    output: str


class System:
    """The real machine."""

    @property
    def environment(self) -> Mapping[str, str]:
        return os.environ

    def read(self, path: str | Path) -> str | None:
        """Return the content of a small text file; None if it cannot be read."""
        try:
            return Path(path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def exists(self, path: str | Path) -> bool:
        return os.path.exists(path)  # noqa: PTH110 - Path.exists raises if a parent folder is inaccessible

    def executable(self, path: str | Path) -> bool:
        return os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113

    def writable(self, folder: str | Path) -> bool:
        """Return whether a file can be created in the folder, by creating one."""
        try:
            with tempfile.TemporaryFile(dir=folder):
                return True
        except OSError:
            return False

    def openable(self, path: str | Path) -> bool:
        """Return whether an existing file can be opened for reading and writing."""
        try:
            with open(path, "r+b"):  # noqa: PTH123
                return True
        except OSError:
            return False

    def owner(self, path: str | Path) -> str:
        try:
            uid = os.stat(path).st_uid  # noqa: PTH116
            return pwd.getpwuid(uid).pw_name
        except OSError:
            return ""
        except KeyError:
            return str(uid)

    def glob(self, pattern: str) -> Sequence[Path]:
        return sorted(Path("/").glob(pattern.lstrip("/")))

    def resolve(self, path: Path) -> Path:
        try:
            return path.resolve()
        except (OSError, RuntimeError):
            return path

    def which(self, name: str) -> str | None:
        return shutil.which(name)

    def run(self, argv: Sequence[str], timeout_s: float = QUICK_S) -> Ran | None:
        """Run a program; None if it is missing or exceeds the time limit."""
        try:
            ended = child.run(argv, timeout_s)
        except NcuSwizzleError:
            return None
        return Ran(ended.status, ended.log)

    def free_bytes(self, folder: str | Path) -> int | None:
        """Return the free space on the disk of the folder, or of its nearest existing parent."""
        path = Path(folder).absolute()
        for existing in (path, *path.parents):
            try:
                return shutil.disk_usage(existing).free
            except OSError:
                continue
        return None

    def processes(self) -> Mapping[int, str]:
        """Return the names of the visible processes, by process ID."""
        names = {}
        for entry in Path("/proc").glob("[0-9]*/comm"):
            name = self.read(entry)
            if name:
                names[int(entry.parent.name)] = name.strip()
        return names

    def has_module(self, name: str) -> bool:
        try:
            return importlib.util.find_spec(name) is not None
        except (ImportError, ValueError):
            return False

    @property
    def privileged(self) -> bool:
        """Whether this process has CAP_SYS_ADMIN: bit 21 of its effective capabilities."""
        status = self.read("/proc/self/status") or ""
        for line in status.splitlines():
            if line.startswith("CapEff:"):
                return bool(int(line.split()[1], 16) >> 21 & 1)
        return os.geteuid() == 0

    @property
    def temporary(self) -> Path:
        """Where ncu puts its lock file."""
        return Path(os.environ.get("TMPDIR") or "/tmp")

    def package_version(self, name: str) -> str:
        """Return the version of a Python package; empty if it is not installed."""
        from importlib import metadata

        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            return ""

    def gpu_absent(self) -> str:
        """Return why nothing can be measured here; see `gpu.absent`."""
        return gpu.absent()

    def gpus(self) -> Sequence[tuple[str, tuple[int, int]]]:
        """Return the name and compute capability of each GPU; the first one is used."""
        return gpu.devices()
