"""Grid, block and shared memory: how they are written, and what a GPU allows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ncu_swizzle.catalog.expressions import evaluate
from ncu_swizzle.errors import BadCatalog, UsageError
from ncu_swizzle.smem.capacity import MOST_THREADS
from ncu_swizzle.texts import Sizes, in_commas

# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"
MOST_BLOCK = (MOST_THREADS, MOST_THREADS, 64)
MOST_GRID = (2**31 - 1, 65535, 65535)
MOST_SHARED = 1 << 20  # bytes: more than any GPU has, each of which has a limit of its own


def three(given: Sizes, what: str) -> tuple[str, str, str]:
    """Return ``"n//32,8"``, ``["n//32", 8]`` or 512 as three expressions, padded with 1; raise UsageError."""
    parts = [part.strip() for part in in_commas(given).split(",")]
    if not 1 <= len(parts) <= 3 or not all(parts):
        raise UsageError(
            f"{what} is {given!r}: it takes one to three sizes", f"--{what} 128,128, or with sizes by name: n//32"
        )
    x, y, z = (*parts, "1", "1")[:3]
    return x, y, z


def refuse_bad_sizes(sizes: Sequence[str], what: str, problem: Mapping[str, int]) -> None:
    """Raise UsageError if a size cannot be evaluated for this problem, or exceeds what any GPU allows."""
    for size, most in zip(sizes, MOST_GRID if what == "grid" else MOST_BLOCK, strict=True):
        try:
            value = evaluate(size, problem)
        except BadCatalog as error:
            raise UsageError(
                f"{what}: {error}", f"{error.hint.rstrip(' ,')}; define one with --problem n=4096"
            ) from error
        if not 1 <= value <= most:
            raise UsageError(f"{what}: {size} is {value}, outside 1 to {most}", f"--{what} 128,128,1")


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
            "use a smaller --block; __launch_bounds__(THREADS) in the source makes the compiler use fewer registers",
        )
    if limits.shared and limits.static + shared > limits.shared:
        own = f" plus {limits.static:,} bytes of static" if limits.static else ""
        raise UsageError(
            f"{name}: {shared:,} bytes of dynamic shared memory{own} exceed the {limits.shared:,} bytes per block of "
            "this GPU",
            "use a smaller --shared, or a smaller tile",
        )
