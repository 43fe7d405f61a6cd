"""The emulated engine: a launch's counts computed, optionally with the times and stalls of a recording."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.engines import emulation
from ncu_swizzle.engines.recorded import is_recorded, recall, recording
from ncu_swizzle.engines.settings import EMULATOR, Context, Engine, Request
from ncu_swizzle.kernels import fills
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.toolchain import INSTALL, Toolchain
from ncu_swizzle.reports.model import EXECUTED, IDEAL, WAVEFRONTS, Profile
from ncu_swizzle.reports.origins import EMULATED


@dataclass(frozen=True)
class EmulatedEngine(Engine):
    """Compiles a kernel, emulates a launch and leaves the cubin in the folder.

    With `beside`, metrics that are not computed come from a recording, and so do kernels that cannot be emulated.
    """

    name = EMULATED
    checks = False
    loads = EMULATOR

    beside: bool = False

    @classmethod
    def lacking(cls, request: Request) -> str:
        missing = Toolchain(request.nvcc).lacking()
        return f"to compute wavefronts, {missing}: {INSTALL}" if missing else ""

    def profile(self, target: Target, context: Context) -> Profile:
        if self.beside and target.kernel.library:
            return recall(target, context.folder)
        settings = emulation.EmulationSettings.of(context.request, simulating=True)
        try:
            emulated = emulation.emulate_target(target, settings, context.on_done(target.name))
        except NcuSwizzleError as error:
            if not (self.beside and is_recorded(target)):
                raise
            profile = recall(target, context.folder)
            return replace(profile, notes=(*profile.notes, f"{target.name} is recorded, not computed: {error}."))
        if _checks(target, context.request):
            from ncu_swizzle.engines.executed import with_check  # what cached counts do without

            emulated = replace(emulated, profile=with_check(emulated.profile, target, settings))
        emulation.save_cubin(emulated, context.folder)
        if self.beside and is_recorded(target):
            return with_recording(emulated.profile, recall(target, context.folder))
        return emulated.profile

    def has_library(self, target: Target) -> bool:
        return self.beside and recording(target) is not None

    def with_recordings(self) -> Engine:
        return replace(self, beside=True)


def _checks(target: Target, request: Request) -> bool:
    """Return whether outputs are compared: a project's reference is code, which runs only if that is asked for."""
    if request.check is not None:
        return request.check
    return target.family.shipped and bool(target.family.reference) and fills.is_small(target)


def with_recording(emulated: Profile, recorded: Profile) -> Profile:
    """Return the emulated profile with the recording's times, stalls and other metrics; `beside` names the recording.

    Counts stay the computed ones. Instructions get the recorded stall samples if both have the same code.
    """
    borrowed = {name: metric for name, metric in recorded.metrics.items() if name not in emulated.metrics}
    own = {EXECUTED, WAVEFRONTS, IDEAL}
    lent = {name: metric for name, metric in borrowed.items() if name not in own}
    metrics = {**lent, **emulated.metrics}
    origin = f"recorded on {recorded.machine.gpu}, {recorded.when[:10]}"
    instructions, notes = emulated.instructions, list(emulated.notes)
    # Both have the same code if each recorded instruction is at its offset; ncu omits what was never reached.
    first = recorded.instructions[0].pc if recorded.instructions else 0
    measured = {instruction.pc - first: instruction for instruction in recorded.instructions}
    opcodes = {instruction.pc: instruction.opcode for instruction in instructions}
    if all(opcodes.get(offset) == instruction.opcode for offset, instruction in measured.items()):
        samples = {offset: instruction.samples for offset, instruction in measured.items()}
        instructions = tuple(
            replace(instruction, samples=samples.get(instruction.pc, {})) for instruction in instructions
        )
    else:
        notes.append(f"{emulated.kernel.name}: the code differs from the recording's: no stalls per instruction.")
    if recorded.machine.cuda and recorded.machine.cuda != emulated.machine.cuda:
        notes.append(
            f"{emulated.kernel.name}: compiled with CUDA {emulated.machine.cuda}, "
            f"recorded with {recorded.machine.cuda}."
        )
    return replace(
        emulated,
        metrics=metrics,
        instructions=instructions,
        notes=tuple(notes),
        beside=origin,
        recorded_metrics=tuple(lent),
    )
