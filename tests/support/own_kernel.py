"""Kernels of users: the example's, tiles with conflicts worked out by hand, one with a planted conflict, sources."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ncu_swizzle.kernels.options import KernelDescription, LaunchOptions
from tests.support.places import DATA, ROOT, text

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


SQUARE = {"problem": {"n": 128}, "block": "32,8"}
# By source, as keywords of Python's functions.
KEYWORDS: Mapping[str, Mapping[str, Any]] = {
    "half.cu": {**SQUARE, "grid": "n//64,n//64", "args": ("uint16[n,n]:random", "uint16[n,n]:out", "int32:n")},
    "double.cu": {**SQUARE, "grid": "n//32,n//32", "args": ("float64[n,n]:random", "float64[n,n]:out", "int32:n")},
    "wide.cu": {"grid": "1", "block": "128", "args": ("float32[2048]:random", "float32[2048]:out")},
    "odd.cu": {"grid": "1", "block": "32", "args": ("float32[768]:random", "float32[768]:out"), "shared": "4096"},
    "clean.cu": {"grid": "1", "block": "32", "args": ("float32[32]:random", "float32[32]:out")},
    "gather.cu": {"grid": "1", "block": "32", "args": ("int32[32]:random", "float32[32]:out")},
    "unshared.cu": {"grid": "1", "block": "32", "args": ("float32[32]:random", "float32[32]:out")},
}


def _words(
    grid: str, block: str, args: tuple[str, ...], problem: Mapping[str, int] = {}, shared: str = ""
) -> Iterator[str]:
    for name, size in problem.items():
        yield from ("--problem", f"{name}={size}")
    yield from ("--grid", grid, "--block", block)
    for argument in args:
        yield from ("--arg", argument)
    if shared:
        yield from ("--shared", shared)


LAUNCHES = {source: tuple(_words(**keywords)) for source, keywords in KEYWORDS.items()}  # as words of a command line


def write(folder: Path) -> None:
    """Write all sources to a folder, and a project that describes two of them."""
    shutil.copytree(DATA / "tiles", folder, dirs_exist_ok=True)


TRANSPOSE, ENTRY = text("sources/planted.cu"), text("sources/planted.toml")
LAUNCH: dict[str, Any] = {
    "grid": "n//32,n//32",
    "block": "32,32",
    "args": ["in=float32[n,n]:random", "out=float32[n,n]:out", "n=int32:n"],
    "problem": {"n": 128},
}
EXCESSIVE = 16 * 32 * 31  # wavefronts: 16 blocks of 32 warps, each reads a column of 32 words of one bank


def _source(name: str) -> str:
    """Return a source; it begins with an empty line, with which its cubins were kept."""
    return "\n" + (DATA / "sources" / f"{name}.cu").read_text(encoding="utf-8")


NAMED = _source("named")
TURN_AND_BEYOND = _source("turn_and_beyond")
SHIFT = _source("shift")
LAUNCHABLE = {
    "flat.cu": "__global__ void flat(float* a, float* b, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x;"
    " __shared__ float s[256]; s[threadIdx.x] = a[i]; __syncthreads(); if (i < n) b[i] = s[255 - threadIdx.x]; }",
    "particles.cu": _source("particles"),
    "volume.cu": _source("volume"),
    "turn.cu": TURN_AND_BEYOND[: TURN_AND_BEYOND.index("extern __shared__")],
    "nothing.cu": "__global__ void nothing() { __shared__ int s[64]; s[threadIdx.x] = 1; }",
}
