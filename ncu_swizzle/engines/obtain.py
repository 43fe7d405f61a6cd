"""From a target to its Profile, by the context's engine."""

from __future__ import annotations

from ncu_swizzle.catalog.target import Target
from ncu_swizzle.engines.context import Context
from ncu_swizzle.errors import UsageError
from ncu_swizzle.profiles.engine import EMULATED, RECORDED
from ncu_swizzle.profiles.model import Profile


def obtain(target: Target, context: Context) -> Profile:
    """Return the kernel's profile and leave its report and facts, or its cubin, in the folder."""
    if context.engine.name == EMULATED:
        from ncu_swizzle.engines.computed import compute  # the NumPy emulator, which the other engines do not need

        return compute(target, context)
    if target.compiled:
        raise UsageError(f"{target.kernel.file} is already compiled: it can only be emulated", "--engine emulated")
    if context.engine.name == RECORDED:
        from ncu_swizzle.engines.recorded import recall

        return recall(target, context.folder)
    from ncu_swizzle.engines.measured import measure

    return measure(target, context)
