"""Which ncu versions are installed, and which one to use: the newest, unless one is named."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from ncu_swizzle.base import child, paths
from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError, TimeLimit
from ncu_swizzle.kernels import device

# The machine as `doctor` and the search for ncu see it: files, the environment, other programs.
#
# All their queries go through a `System`, so tests can substitute one. Nothing here raises: what is unavailable is
# None, empty or False.

QUICK_S = 4.0  # the time limit of a program that only prints something


@dataclass(frozen=True)
class Ran:
    """A program's exit status and output; `waited_s` is how long it was waited for in vain, 0 if it answered."""

    status: int
    output: str
    waited_s: float = 0.0

    @property
    def silence(self) -> str:
        """The message about a program that did not answer; empty if it did."""
        return f"did not answer within {self.waited_s:g} s" if self.waited_s else ""


class System:
    """The real machine. Each program is asked each question once."""

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

    def glob(self, pattern: str) -> Sequence[Path]:
        return sorted(Path("/").glob(pattern.lstrip("/")))

    def resolve(self, path: Path) -> Path:
        try:
            return path.resolve()
        except (OSError, RuntimeError):
            return path

    def which(self, name: str) -> str | None:
        return shutil.which(name, path=os.pathsep.join(paths.program_folders()))

    @cached_property
    def _answers(self) -> dict[tuple[str, ...], Ran | None]:
        return {}

    def run(self, argv: Sequence[str]) -> Ran | None:
        """Run a program that only prints something; None if it is missing."""
        question = tuple(argv)
        if question not in self._answers:
            self._answers[question] = _answer(question)
        return self._answers[question]

    def ask_ahead(self, questions: Iterable[Sequence[str]]) -> None:
        """Run programs at the same time, so that several that hang take no longer than one."""
        threads = [threading.Thread(target=self.run, args=(argv,)) for argv in questions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def free_bytes(self, folder: str | Path) -> int | None:
        """Return the free space on the disk of the folder, or of its nearest existing parent."""
        path = Path(folder).absolute()
        for existing in (path, *path.parents):
            try:
                return shutil.disk_usage(existing).free
            except OSError:
                continue
        return None

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
        return device.absent()

    def gpus(self) -> Sequence[tuple[str, tuple[int, int]]]:
        """Return the name and compute capability of each GPU; the first one is used."""
        return device.devices()


def _answer(argv: Sequence[str]) -> Ran | None:
    try:
        ended = child.run(argv, QUICK_S, environment=paths.tool_environment())
    except TimeLimit:
        return Ran(-signal.SIGKILL, "", waited_s=QUICK_S)
    except NcuSwizzleError:
        return None
    return Ran(ended.status, ended.log)


Version = tuple[int, ...]
TOOLKITS = ("CUDA_HOME", "CUDA_ROOT", "CUDA_PATH")  # environment variables that name the CUDA toolkit's folder
ASK = "--version"
LOCK = "nsight-compute-lock"
OLDEST_CHECKED: Version = (2024, 1)  # reports of older versions were never tested


@dataclass(frozen=True)
class Installed:
    """An ncu, where it was found, and its version, empty if unknown."""

    path: Path
    origin: str  # PATH, CUDA_HOME, …
    version: Version = ()

    @property
    def version_text(self) -> str:
        return ".".join(map(str, self.version)) or "unknown version"


def candidates(system: System) -> Iterator[Installed]:
    """Yield every executable ncu, each program once; of equal versions the first one is preferred."""
    seen: set[Path] = set()
    for path, origin in _paths(system):
        real = system.resolve(path)
        if system.executable(path) and real not in seen:
            seen.add(real)
            yield Installed(path, origin)


def _paths(system: System) -> Iterator[tuple[Path, str]]:
    on_path = system.which("ncu")
    if on_path:
        yield Path(on_path), "PATH"
    for name in TOOLKITS:
        if (folder := Path(system.environment.get(name, ""))).is_absolute():
            yield folder / "bin" / "ncu", name
    for pattern in ("/usr/local/cuda/bin/ncu", "/usr/local/cuda-*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu"):
        for path in system.glob(pattern):
            yield path, "toolkit" if "cuda" in pattern else "/opt/nvidia"


def newest(system: System) -> Installed | None:
    """Return the newest ncu; versions are only queried if there are several."""
    programs = list(candidates(system))
    if len(programs) < 2:
        return programs[0] if programs else None
    return by_age(system, programs)[0]


def by_age(system: System, programs: list[Installed]) -> list[Installed]:
    """Return the programs with their versions, the newest first, unknown versions last."""
    system.ask_ahead(asks for ncu in programs if (asks := question(system, ncu.path)))
    versioned = [Installed(ncu.path, ncu.origin, version(system, ncu.path)) for ncu in programs]
    return sorted(versioned, key=lambda ncu: ncu.version, reverse=True)  # stable: equal versions keep their order


def version(system: System, ncu: Path) -> Version:
    """Return an ncu's version, such as (2025, 3, 1, 0): from its folder's name, else from its --version."""
    if folder := _version_folder(system, ncu):
        return parse_version(folder[1])
    ran = system.run([str(ncu), ASK])
    printed = re.search(r"Version (\d{1,9}(?:\.\d{1,9})+)", ran.output) if ran and ran.status == 0 else None
    return parse_version(printed[1]) if printed else ()


def _version_folder(system: System, ncu: Path) -> re.Match[str] | None:
    return re.search(r"nsight-compute[-/](\d{1,9}(?:\.\d{1,9})+)", str(system.resolve(ncu)))


def question(system: System, ncu: Path) -> list[str]:
    """Return the command that tells an ncu's version; empty if its folder's name does."""
    return [] if _version_folder(system, ncu) else [str(ncu), ASK]


def parse_version(text: str) -> Version:
    return tuple(int(part) for part in text.split("."))


def foreign_lock(system: System) -> str:
    """Return ncu's lock file if it cannot be opened, as another user owns it; empty otherwise."""
    lock = system.temporary / LOCK
    if system.exists(lock) and not system.openable(lock):
        return str(lock)
    return ""


def find(given: Path | None = None, system: System | None = None) -> Path:
    """Return the ncu to use: the one given, or the newest of those on PATH, in CUDA toolkits and in /opt/nvidia."""
    if given is not None:
        if not (system or System()).executable(given):
            raise EnvironmentLacking(f"{given} is not an executable", "give the path of ncu itself to --ncu")
        return given
    chosen = newest(system) if system else _newest(*map(os.environ.get, ("PATH", *TOOLKITS)))
    if chosen is None:
        raise EnvironmentLacking(
            "Nsight Compute (ncu) was not found on PATH, in the CUDA toolkit or in /opt/nvidia/nsight-compute",
            "install it, or name it with --ncu PATH; --engine recorded needs none",
        )
    return chosen.path


@cache
def _newest(*variables: str | None) -> Installed | None:  # noqa: ARG001 - the result depends on them
    return newest(System())
