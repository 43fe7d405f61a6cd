"""The locations of data files: in a checkout's root, or in an installed wheel."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Sequence
from pathlib import Path

from ncu_swizzle.base.texts import encodable

BASELINE = Path("ncu-swizzle-baseline.json")  # what `check` looks for in the current folder

_PACKAGE = Path(__file__).resolve().parent.parent


def package() -> Path:
    """Return the folder of the package's own source."""
    return _PACKAGE


def data_root() -> Path:
    """Return the folder that holds kernels/, rules/, reports/ and recordings/."""
    installed = _PACKAGE / "_data"
    return installed if installed.is_dir() else _PACKAGE.parent


def kernels() -> Path:
    return data_root() / "kernels"


def rules() -> Path:
    return data_root() / "rules"


def reports() -> Path:
    return data_root() / "reports"


def recordings() -> Path:
    return data_root() / "recordings"


def docs() -> Path:
    """Return the folder with the documentation's pages; a wheel has only those that agents read."""
    return data_root() / "docs"


def recording(family: str, kernel: str) -> Path | None:
    """Return the kernel's shipped report, if there is one; the parent of its family's folder is named after the GPU."""
    matches = sorted(recordings().glob(f"*/{family}/{kernel}.ncu-rep"))
    return matches[0] if matches else None


def below(file: str, roots: Sequence[str]) -> str:
    """Return a path, as text that UTF-8 can hold, relative to the first root that contains it; else unchanged."""
    plain = encodable(posixpath.normpath(file))  # the compiler writes folder/../include/tile.cuh
    for root in map(encodable, roots):
        if plain.startswith(f"{root}/"):
            return plain.removeprefix(f"{root}/")
    return encodable(file)


def program_folders() -> list[str]:
    """Return the absolute folders on PATH: a relative one may lie in an untrusted checkout."""
    return [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if posixpath.isabs(folder)]


def tool_environment() -> dict[str, str]:
    """Return the environment for a tool, which finds others in absolute folders only."""
    return {**os.environ, "PATH": os.pathsep.join(program_folders())}


def child_environment() -> dict[str, str]:
    """Return the environment for a Python process that imports this package, and nothing from its current folder."""
    inherited = os.environ.get("PYTHONPATH")
    package = str(_PACKAGE.parent)
    path = f"{package}{os.pathsep}{inherited}" if inherited else package
    return {**tool_environment(), "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
