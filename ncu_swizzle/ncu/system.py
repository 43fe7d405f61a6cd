"""The machine around us, as `doctor` and the search for ncu look at it: files, the environment, other programs.

Everything that they ask goes through a `System`, so that tests can make one up. Nothing here raises: what cannot be
had is None, empty or False.
"""

from __future__ import annotations

import getpass
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

QUICK_S = 20.0  # the time limit of a program that only has to say something


@dataclass(frozen=True)
class Ran:
    """How a program ended, and what it printed."""

    status: int
    output: str


class System:
    """The real machine."""

    @property
    def environment(self) -> Mapping[str, str]:
        return os.environ

    def read(self, path: str | Path) -> str | None:
        """Return a small text file, None where it cannot be read."""
        try:
            return Path(path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def exists(self, path: str | Path) -> bool:
        return os.path.exists(path)  # noqa: PTH110 - Path.exists raises where a folder above cannot be entered

    def executable(self, path: str | Path) -> bool:
        return os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113

    def writable(self, folder: str | Path) -> bool:
        """Say whether a file can be made in the folder, by making one."""
        try:
            with tempfile.TemporaryFile(dir=folder):
                return True
        except OSError:
            return False

    def openable(self, path: str | Path) -> bool:
        """Say whether an existing file can be opened for reading and writing."""
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
        """Run a program, None where it is not there or does not end in its time."""
        try:
            outcome = child.run(argv, timeout_s)
        except NcuSwizzleError:
            return None
        return Ran(outcome.status, outcome.log)

    def free_bytes(self, folder: str | Path) -> int | None:
        """Return what is free on the disk of the folder, or of the nearest one above it that exists."""
        path = Path(folder).absolute()
        for place in (path, *path.parents):
            try:
                return shutil.disk_usage(place).free
            except OSError:
                continue
        return None

    def processes(self) -> Mapping[int, str]:
        """Return the names of the processes that can be seen."""
        found = {}
        for entry in Path("/proc").glob("[0-9]*/comm"):
            name = self.read(entry)
            if name:
                found[int(entry.parent.name)] = name.strip()
        return found

    def has_module(self, name: str) -> bool:
        try:
            return importlib.util.find_spec(name) is not None
        except (ImportError, ValueError):
            return False

    @property
    def privileged(self) -> bool:
        """Whether this process may do what root may: CAP_SYS_ADMIN, bit 21 of its effective capabilities."""
        status = self.read("/proc/self/status") or ""
        for line in status.splitlines():
            if line.startswith("CapEff:"):
                return bool(int(line.split()[1], 16) >> 21 & 1)
        return os.geteuid() == 0

    @property
    def user(self) -> str:
        try:
            return getpass.getuser()
        except (KeyError, OSError):
            return str(os.getuid())

    @property
    def temporary(self) -> Path:
        """Where ncu puts its lock file."""
        return Path(os.environ.get("TMPDIR") or "/tmp")

    def package_version(self, name: str) -> str:
        """Return the version of an installed Python package; empty where it is not installed."""
        from importlib import metadata

        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            return ""

    def gpu_absent(self) -> str:
        """Return why nothing can be measured here; see `gpu.absent`."""
        return gpu.absent()

    def gpus(self) -> Sequence[tuple[str, tuple[int, int]]]:
        """Return the name and the compute capability of each GPU, the one that is used first."""
        return gpu.devices()
