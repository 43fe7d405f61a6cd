"""The kernel of examples/own-kernel: as options, as a described file, copied to a folder."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from ncu_swizzle.kernels.options import KernelDescription, LaunchOptions
from tests.support.places import ROOT, text

EXAMPLE = ROOT / "examples" / "own-kernel"


def description(given: KernelDescription = KernelDescription(), **fields: Any) -> KernelDescription:
    """Return a description with these fields, its own or its launch's."""
    launch = {name: fields.pop(name) for name in LaunchOptions.__dataclass_fields__ if name in fields}
    return replace(given, launch=replace(given.launch, **launch), **fields)


FULL = description(
    entry="transpose",
    grid="n//32,n//32",
    block="32,8",
    args=("x=float32[n,n]:random", "y=float32[n,n]:out", "n=int32:n"),
    problem={"n": 64},
)
TYPED = (
    *("--grid", "n//32,n//32", "--block", "32,8", "--problem", "n=64"),
    *("--arg", "x=float32[n,n]:random", "--arg", "y=float32[n,n]:out", "--arg", "n=int32:n"),
)
VARIANTS = ("--before", "-DSWIZZLE=0", "--after", "-DSWIZZLE=1")


def own(folder: Path, described: str = "") -> Path:
    """Copy the example's source to a folder, and a description of it."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(EXAMPLE / "my.cu", folder)
    if described:
        (folder / "ncu-swizzle.toml").write_text(described, encoding="utf-8")
    return folder / "my.cu"


FAMILY = text("kernels/family.toml")  # as short as one can be
KERNEL = text("kernels/own_kernel.toml")
