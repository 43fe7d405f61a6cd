"""Grid, block and shared memory: as they are written, and what a GPU takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ncu_swizzle.catalog.expressions import evaluate
from ncu_swizzle.errors import BadCatalog, UsageError

MOST_BLOCK = (1024, 1024, 64)  # CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"
MOST_GRID = (2**31 - 1, 65535, 65535)


def three(given: str | Sequence[str | int], what: str) -> tuple[str, str, str]:
    """Return ``"n//32,8"`` or ``["n//32", 8]`` as three expressions, those left away 1; raise UsageError."""
    parts = [part.strip() for part in given.split(",")] if isinstance(given, str) else [str(part) for part in given]
    if not 1 <= len(parts) <= 3 or not all(parts):
        raise UsageError(f"{what} is {given!r}: one to three sizes", f"--{what} 128,128, or with sizes by name: n//32")
    x, y, z = (*parts, "1", "1")[:3]
    return x, y, z


def refuse_bad_sizes(sizes: Sequence[str], what: str, problem: Mapping[str, int]) -> None:
    """Raise UsageError where a size is none with this problem, or none that any GPU takes."""
    for size, most in zip(sizes, MOST_GRID if what == "grid" else MOST_BLOCK, strict=True):
        try:
            value = evaluate(size, problem)
        except BadCatalog as error:
            raise UsageError(f"{what}: {error}", f"{error.hint.rstrip(' ,')}; --problem n=4096 gives one") from error
        if not 1 <= value <= most:
            raise UsageError(f"{what}: {size} is {value}, which is not 1 to {most}", f"--{what} 128,128,1")


@dataclass(frozen=True)
class Limits:
    """What the GPU and the compiled kernel allow a launch: threads of a block, bytes of its shared memory."""

    threads: int
    shared: int  # static and dynamic together; 0 where it is not known
    static: int


def refuse_oversized(name: str, block: Sequence[int], shared: int, limits: Limits) -> None:
    """Raise UsageError where a launch would ask for more threads or shared memory than there is."""
    threads = math.prod(block)
    if threads > limits.threads:
        raise UsageError(
            f"{name}: a block of {' x '.join(map(str, block))} is {threads:,} threads; the kernel can be launched with "
            f"{limits.threads:,}",
            "a smaller --block; __launch_bounds__(THREADS) in the source makes the compiler spare registers",
        )
    if limits.shared and limits.static + shared > limits.shared:
        own = f" beside its {limits.static:,} bytes of static" if limits.static else ""
        raise UsageError(
            f"{name}: {shared:,} bytes of dynamic shared memory{own} are more than the {limits.shared:,} that a block "
            "of this GPU can have",
            "a smaller --shared, or a smaller tile",
        )
