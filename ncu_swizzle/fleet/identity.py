"""Which ncu-swizzle this is: its version, and a digest of everything that a profile depends on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

from ncu_swizzle import digest, paths

SKIPPED = ("__pycache__", "_data")


@cache
def identity() -> str:
    """Return the version and the digest of the package, the shipped kernels and the rules: ``0.1.0 (1a2b3c4d5e6f)``."""
    try:
        version = metadata.version("ncu-swizzle")
    except metadata.PackageNotFoundError:  # run from a folder
        version = "unreleased"
    parts = [part for name, file in _files() for part in (name, digest.sha256(file.read_bytes()))]
    return f"{version} ({digest.sha256_of_texts(*parts)[:12]})"


def _files() -> Iterator[tuple[str, Path]]:
    for folder in (paths.package(), paths.kernels(), paths.rules()):
        for file in sorted(folder.rglob("*")):
            inner = file.relative_to(folder)
            hidden = any(part in SKIPPED or part.startswith(".") for part in inner.parts)
            if not hidden and file.is_file():
                yield f"{folder.name}/{inner.as_posix()}", file
