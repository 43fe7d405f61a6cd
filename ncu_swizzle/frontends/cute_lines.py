"""The callers of Python functions that a kernel of CuTe DSL calls: the DSL itself notes the innermost line alone.

The DSL executes a kernel's Python to find out its operations. Each operation's location is made one inlined into the
lines of the functions that are being executed, up to the kernel's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any

KERNEL = "kernel_wrapper"  # the DSL's function that calls a kernel's


def with_callers() -> AbstractContextManager[None]:
    """Have operations be located with their callers; does nothing for a version of the DSL that has no such hook."""
    from cutlass._mlir_helpers import op

    located: AbstractContextManager[None] = getattr(op, "loc_transform", lambda _: nullcontext())(_inlined)
    return located


def _inlined(location: Any) -> Any:
    """Return an operation's location, inlined into those of its callers."""
    from cutlass._mlir import ir

    callers = list(_callers())[1:]
    if location is None or not callers:
        return location
    return ir.Location.callsite(location, [ir.Location.file(*caller, 0) for caller in callers])


def _callers() -> Iterator[tuple[str, int]]:
    """Yield file and line of the functions being executed, innermost first; none outside of a kernel."""
    from cutlass._mlir_helpers import op

    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != KERNEL:
        frames.append(frame)
        frame = frame.f_back
    for each in frames if frame is not None else ():
        if each.f_code.co_filename != __file__ and not op._is_framework_stack_frame(each):
            yield each.f_code.co_filename, each.f_lineno
