"""What to launch a kernel with that accesses shared memory beyond what its block has."""

from __future__ import annotations

from dataclasses import replace

from ncu_swizzle.cubin import ptx_entry
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.code import Code
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.engines.emulated_launch import MOST_SHARED
from ncu_swizzle.errors import NcuSwizzleError, TimeLimit
from ncu_swizzle.smem import capacity, operations
from ncu_swizzle.smem.operations import LINE

MOST_S = 30.0  # for a hint
OWN = f"{capacity.RESERVED_BYTES:,} of a block's bytes are CUDA's own"


def hint(code: Code, launch: Launch, cubin: Cubin, left_s: float) -> str:
    """Return what to try after an access beyond the block's shared memory: how much it needs, if that can be had.

    The launch is emulated with as much as there is, in what is left of the time for it.
    """
    static = cubin.attributes(code.name).static_shared
    entry = ptx_entry.entry_in(ptx_entry.embedded(cubin), code.name)
    if static and not (entry and entry.dynamic_shared):
        return f"its arrays have {static:,} bytes and {OWN}: fix the index, or use a smaller --block"
    try:
        needed = _needed(code, launch, MOST_SHARED - static, min(left_s, MOST_S))
    except TimeLimit:
        return f"give it more, up to --shared {MOST_SHARED - static}, or fix the index"
    if needed is None:
        return f"fix the index: no block has as much shared memory, --shared {MOST_SHARED - static} is the most"
    return f"--shared {needed}: as far as it reaches; {OWN}, and not counted there"


def _needed(code: Code, launch: Launch, most: int, timeout_s: float) -> int | None:
    """Return the bytes of dynamic shared memory that all accesses stay within; None if `most` do not suffice.

    Raises TimeLimit.
    """
    from ncu_swizzle.emulate.run import emulate  # the emulator, loaded by now

    try:
        counts = emulate(code, replace(launch, shared_dynamic=most), timeout_s=timeout_s)
    except TimeLimit:
        raise
    except NcuSwizzleError:
        return None
    ends = [
        int(requests.addresses[requests.active].max()) + max(operations.find(requests.op).width_bytes, 1)
        for requests in counts.requests.values()
        if requests.active.any()
    ]
    start = -(-code.shared_bytes // LINE) * LINE
    return min(max(max(ends, default=start) - start, launch.shared_dynamic + 1), most)
