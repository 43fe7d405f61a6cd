"""Which ncu are installed, and which one to use: the newest, unless one is named."""

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
TOOLKITS = ("CUDA_HOME", "CUDA_ROOT", "CUDA_PATH")  # environment variables that name a toolkit's folder
LOCK = "nsight-compute-lock"
OLDEST_CHECKED: Version = (2024, 1)  # reports of older ones were never read here


@dataclass(frozen=True)
class Installed:
    """An ncu, where it was found, and its version, empty where it does not tell."""

    path: Path
    origin: str  # PATH, CUDA_HOME, …
    version: Version = ()

    @property
    def version_text(self) -> str:
        return ".".join(map(str, self.version)) or "unknown version"


def candidates(system: System) -> Iterator[Installed]:
    """Yield every ncu that can be run, each program once, in the order in which equal versions are preferred."""
    seen: set[Path] = set()
    for path, origin in _places(system):
        real = system.resolve(path)
        if system.executable(path) and real not in seen:
            seen.add(real)
            yield Installed(path, origin)


def _places(system: System) -> Iterator[tuple[Path, str]]:
    on_path = system.which("ncu")
    if on_path:
        yield Path(on_path), "PATH"
    for name in TOOLKITS:
        if folder := system.environment.get(name):
            yield Path(folder, "bin", "ncu"), name
    for pattern in ("/usr/local/cuda/bin/ncu", "/usr/local/cuda-*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu"):
        for path in system.glob(pattern):
            yield path, "toolkit" if "cuda" in pattern else "/opt/nvidia"


def newest(system: System) -> Installed | None:
    """Return the ncu to use; only where there are several are they asked for their versions."""
    found = list(candidates(system))
    if len(found) < 2:
        return found[0] if found else None
    return by_age(system, found)[0]


def by_age(system: System, found: list[Installed]) -> list[Installed]:
    """Return them with their versions, the newest first, those that do not tell last."""
    known = [Installed(one.path, one.origin, version(system, one.path)) for one in found]
    return sorted(known, key=lambda one: one.version, reverse=True)  # stable: of equal ones the first stays first


def version(system: System, ncu: Path) -> Version:
    """Return an ncu's version, such as (2025, 3, 1, 0): from its folder's name, else from itself."""
    folder = re.search(r"nsight-compute[-/](\d+(?:\.\d+)+)", str(system.resolve(ncu)))
    if folder:
        return parse(folder[1])
    ran = system.run([str(ncu), "--version"])
    said = re.search(r"Version (\d+(?:\.\d+)+)", ran.output) if ran and ran.status == 0 else None
    return parse(said[1]) if said else ()


def parse(text: str) -> Version:
    return tuple(int(part) for part in text.split("."))


def foreign_lock(system: System) -> str:
    """Return ncu's lock file where it belongs to somebody else and cannot be opened; empty elsewhere."""
    lock = system.temporary / LOCK
    if system.exists(lock) and not system.openable(lock):
        return str(lock)
    return ""


def find(given: Path | None = None, system: System | None = None) -> Path:
    """Return the ncu to use: the one given, or the newest of those on PATH, in CUDA toolkits and in /opt/nvidia."""
    if given is not None:
        if not (system or System()).executable(given):
            raise EnvironmentLacking(f"{given} is no program that can be run", "name ncu itself with --ncu")
        return given
    found = newest(system) if system else _newest(*map(os.environ.get, ("PATH", *TOOLKITS)))
    if found is None:
        raise EnvironmentLacking(
            "Nsight Compute (ncu) was not found on PATH, in the CUDA toolkit or in /opt/nvidia/nsight-compute",
            "install it, or name it with --ncu; --engine recorded needs none",
        )
    return found.path


@cache
def _newest(*variables: str | None) -> Installed | None:  # noqa: ARG001 - what the answer depends on
    return newest(System())
