"""The locations of data files: in a checkout's root, or in an installed wheel."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Sequence
from pathlib import Path

BASELINE = Path("ncu-swizzle-baseline.json")  # what `check` looks for in the current folder

_PACKAGE = Path(__file__).resolve().parent


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


def recording(family: str, kernel: str) -> Path | None:
    """Return the kernel's shipped report, if there is one; the parent of its family's folder is named after the GPU."""
    matches = sorted(recordings().glob(f"*/{family}/{kernel}.ncu-rep"))
    return matches[0] if matches else None


def below(file: str, roots: Sequence[str]) -> str:
    """Return a path relative to the first root that contains it; any other path unchanged."""
    plain = posixpath.normpath(file)  # the compiler writes folder/../include/tile.cuh
    for root in roots:
        if plain.startswith(f"{root}/"):
            return plain.removeprefix(f"{root}/")
    return file


def child_environment() -> dict[str, str]:
    """Return the environment for a child process that imports this package, whatever folder it runs in."""
    inherited = os.environ.get("PYTHONPATH")
    package = str(_PACKAGE.parent)
    return {**os.environ, "PYTHONPATH": f"{package}{os.pathsep}{inherited}" if inherited else package}
