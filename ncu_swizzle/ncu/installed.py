"""Which ncu versions are installed, and which one to use: the newest, unless one is named."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ncu_swizzle.errors import EnvironmentLacking
from ncu_swizzle.ncu.system import System

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
