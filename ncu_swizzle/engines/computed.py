"""Computed: one launch emulated, optionally with the times and stalls of a recording."""

from __future__ import annotations

from dataclasses import replace

from ncu_swizzle.catalog.target import Target
from ncu_swizzle.engines import emulation
from ncu_swizzle.engines.context import Context
from ncu_swizzle.engines.recorded import is_recorded, recall
from ncu_swizzle.engines.with_recording import with_recording
from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.profiles.model import Profile


def compute(target: Target, context: Context) -> Profile:
    """Emulate one launch and leave the cubin in the folder; with `engine.beside`, add the recorded metrics.

    With `engine.beside`, a kernel that cannot be emulated is read from its recording, and a note says why.
    """
    beside, request = context.engine.beside, context.request
    if beside and target.kernel.library:
        return recall(target, context.folder)
    settings = emulation.EmulationSettings.of(request)
    try:
        emulated = emulation.emulate_target(target, settings, context.percent_of(target.name))
    except NcuSwizzleError as error:
        if not (beside and is_recorded(target)):
            raise
        profile = recall(target, context.folder)
        return replace(profile, notes=(*profile.notes, f"{target.name} is recorded, not computed: {error}."))
    emulation.save_cubin(emulated, context.folder)
    if beside and is_recorded(target):
        return with_recording(emulated.profile, recall(target, context.folder))
    return emulated.profile
