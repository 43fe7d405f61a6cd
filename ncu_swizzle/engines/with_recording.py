"""Combine an emulated profile with a recording: computed counts, recorded times and stalls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ncu_swizzle.profiles.model import EXECUTED, IDEAL, WAVEFRONTS, Profile


def with_recording(emulated: Profile, recorded: Profile) -> Profile:
    """Return the emulated profile with the recording's times, stalls and other metrics; `beside` names the recording.

    Counts stay the computed ones. Instructions get the recorded stall samples if both have the same code.
    """
    borrowed = {name: metric for name, metric in recorded.metrics.items() if name not in emulated.metrics}
    own = {EXECUTED, WAVEFRONTS, IDEAL}
    metrics = {**{name: metric for name, metric in borrowed.items() if name not in own}, **emulated.metrics}
    origin = f"recorded on {recorded.machine.gpu}, {recorded.when[:10]}"
    instructions, notes = emulated.instructions, list(emulated.notes)
    samples = _samples(emulated, recorded)
    if samples is not None:
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
    return replace(emulated, metrics=metrics, instructions=instructions, notes=tuple(notes), beside=origin)


def _samples(emulated: Profile, recorded: Profile) -> dict[int, Mapping[str, int]] | None:
    """Return the recorded stall samples by offset; None if the code differs."""
    first = recorded.instructions[0].pc if recorded.instructions else 0
    own = {instruction.pc: instruction.opcode for instruction in emulated.instructions}
    # ncu omits what was never reached.
    theirs = {instruction.pc - first: instruction for instruction in recorded.instructions}
    if any(own.get(offset) != instruction.opcode for offset, instruction in theirs.items()):
        return None
    return {offset: instruction.samples for offset, instruction in theirs.items()}
