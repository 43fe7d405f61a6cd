"""Grid, block and shared memory: how they are written, and what a GPU allows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ncu_swizzle.catalog.expressions import evaluate, undefined
from ncu_swizzle.errors import BadCatalog, UsageError
from ncu_swizzle.smem.capacity import MOST_THREADS, RESERVED_BYTES
from ncu_swizzle.texts import Sizes, in_commas

# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"
MOST_BLOCK = (MOST_THREADS, MOST_THREADS, 64)
MOST_GRID = (2**31 - 1, 65535, 65535)
USUAL = {"grid": "128,128", "block": "32,8"}
MOST_SHARED = 1 << 20  # bytes: more than any GPU has, each of which has a limit of its own


def three(given: Sizes, what: str) -> tuple[str, str, str]:
    """Return ``"n//32,8"``, ``["n//32", 8]`` or 512 as three expressions, padded with 1; raise UsageError."""
    parts = [part.strip() for part in in_commas(given).split(",")]
    if not 1 <= len(parts) <= 3 or not all(parts):
        raise UsageError(
            f"{what} is {given!r}: it takes one to three sizes",
            f"--{what} {USUAL[what]}; sizes may have names, such as n//32",
        )
    x, y, z = (*parts, "1", "1")[:3]
    return x, y, z


def refuse_bad_sizes(sizes: Sequence[str], what: str, problem: Mapping[str, int]) -> None:
    """Raise UsageError if a size cannot be evaluated for this problem, or exceeds what any GPU allows."""
    for size, most in zip(sizes, MOST_GRID if what == "grid" else MOST_BLOCK, strict=True):
        try:
            value = evaluate(size, problem)
        except BadCatalog as error:
            raise UsageError(f"{what}: {error}", undefined(error)) from error
        if not 1 <= value <= most:
            raise UsageError(f"{what}: {size} is {value}, outside 1 to {most}", f"--{what} {USUAL[what]}")


@dataclass(frozen=True)
class Limits:
    """What the GPU and the compiled kernel allow: threads per block, and bytes of shared memory per block."""

    threads: int
    shared: int  # static and dynamic together; 0 if unknown
    static: int


def refuse_oversized(name: str, block: Sequence[int], shared: int, limits: Limits) -> None:
    """Raise UsageError if a launch asks for more threads or shared memory than allowed."""
    threads = math.prod(block)
    if threads > limits.threads:
        raise UsageError(
            f"{name}: a block of {' x '.join(map(str, block))} has {threads:,} threads; this kernel allows at most "
            f"{limits.threads:,}",
            f"--block {_fitting(block, limits.threads)}; __launch_bounds__ in the source makes the compiler use fewer "
            "registers, for a larger one",
        )
    if limits.shared and limits.static + shared > limits.shared:
        own = f" plus {limits.static:,} bytes of static" if limits.static else ""
        raise UsageError(
            f"{name}: {shared:,} bytes of dynamic shared memory{own} exceed the {limits.shared:,} bytes per block of "
            "this GPU",
            f"--shared {limits.shared - limits.static} is the most for this kernel; {RESERVED_BYTES:,} more bytes per "
            "block are CUDA's own"
            if limits.shared > limits.static
            else "use a smaller tile",
        )


def _fitting(block: Sequence[int], threads: int) -> str:
    """Return a block with at most that many threads: the last sizes are reduced first."""
    sizes = list(block)
    for axis in reversed(range(len(sizes))):
        others = math.prod(sizes) // sizes[axis]
        sizes[axis] = max(min(sizes[axis], threads // others), 1)
    return ",".join(map(str, sizes))
