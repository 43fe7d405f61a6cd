"""Compare two versions of a kernel."""

from __future__ import annotations

from ncu_swizzle.certify.verdict import KernelVerdict, Obstacle, Outcome


def certify(
    before: str,
    after: str,
    *,
    kernel: str = "",
    block: tuple[int, int, int] | None = None,
    dynamic: tuple[int, int] | None = None,
    certificate: bool = False,
) -> KernelVerdict:
    """Return the verdict on a kernel in two PTX modules, of unoptimised code (`nvcc -Xcicc -O0 -ptx -lineinfo`).

    `kernel` is its symbol in the old module, "" for the only one; the new one has the same symbol, or is the only one
    of its module. `block` is the shape of blocks, None for any shape; `dynamic` the bytes of dynamic shared memory in
    each version. With `certificate` the verdict has the queries. Raises ValueError for text that is not PTX.
    """
    return KernelVerdict(kernel=kernel, outcome=Outcome.UNPROVED, block=block, obstacle=Obstacle(reason="not built yet"))
