"""What a captured launch left in memory on the GPU, compared bit for bit with what executing it leaves."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ncu_swizzle.base import cache, codes
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.capture.dry import Left
from ncu_swizzle.capture.launches import CapturedBuffer, CapturedLaunch, Contents, LaunchesFile
from ncu_swizzle.emulate.counts import Buffer, Launch
from ncu_swizzle.emulate.faults import Circling, MemoryFault, Stuck
from ncu_swizzle.engines import emulated_launch, executed
from ncu_swizzle.engines.emulated_launch import Binary
from ncu_swizzle.engines.emulated_profile import kernel_id, profile_of_counts
from ncu_swizzle.engines.emulation import EmulationSettings, code_of, counts_of
from ncu_swizzle.engines.executed import ExecutedLaunch, executed_launch, why_unknown, with_outputs
from ncu_swizzle.engines.settings import unheard
from ncu_swizzle.reports.model import CheckedOutput, Profile, warnings_about
from ncu_swizzle.smem.operations import Bools, Ints

WITHOUT = "the file does not hold what they are after the launch: ncu-swizzle capture --outputs keeps it"
MOST_BYTES = 64 << 20  # of all buffers of a launch that is executed: a byte takes 18
WORD = 4  # bytes that are compared at once


@dataclass(frozen=True)
class Remains:
    """Where a buffer or a variable lies in the emulator, and what it held before and after the launch."""

    buffer: Buffer
    before: Contents
    after: Contents


def with_check(
    profile: Profile,
    file: LaunchesFile,
    captured: CapturedLaunch,
    binary: Binary,
    launch: Launch,
    settings: EmulationSettings,
) -> Profile:
    """Return a launch's profile with what it leaves in memory checked."""
    return with_outputs(profile, lambda: checked_outputs(file, captured, binary, launch, settings))


def checked_outputs(
    file: LaunchesFile, captured: CapturedLaunch, binary: Binary, launch: Launch, settings: EmulationSettings
) -> Iterator[CheckedOutput]:
    """Execute a launch, and yield how each part of memory that it writes, here or on the GPU, compares.

    Raises NcuSwizzleError with the reason if it cannot be executed, as where it accesses what was not captured.
    """
    if not captured.outputs:
        raise NcuSwizzleError(WITHOUT)
    outputs = tuple(outputs_of(captured, binary))
    size = sum(each.buffer.size for each in outputs)
    if size > MOST_BYTES:
        raise NcuSwizzleError(f"its buffers have {size:,} bytes, more than {MOST_BYTES:,}")
    launch = with_buffers(launch, binary, outputs)
    ran = executed_launch(binary, code_of(binary, settings), launch, executed.Manner(timeout_s=settings.limit_s))
    for output in outputs:
        where = ran.execution.memory.span(output.buffer.address, output.buffer.size)
        changed = output.after.sha256 not in ("", output.before.sha256)
        if changed or ran.execution.memory.by[where].any():
            yield _compared(file, ran, output, where)


def left_by(
    captured: CapturedLaunch, binary: Binary, launch: Launch, settings: EmulationSettings, *, races: bool
) -> Left:
    """Execute a launch, and return what it leaves: for a program that waits for it; with `races`, its races, too."""
    whole = replace(captured, buffers=tuple(joined(captured.buffers)), outputs=())
    outputs = tuple(outputs_of(whole, binary))
    launch = with_buffers(launch, binary, outputs)
    try:
        ran = executed_launch(binary, code_of(binary, settings), launch, executed.Manner(timeout_s=settings.limit_s))
    except (MemoryFault, Stuck, Circling) as error:
        return Left(fault=str(error))
    except NcuSwizzleError as error:
        return Left(why=str(error))
    memory, known = ran.execution.memory, []
    numbers = {variable.name: number for number, variable in enumerate(captured.variables)}
    for output in outputs:
        where = memory.span(output.buffer.address, output.buffer.size)
        edges = np.flatnonzero(np.diff(memory.known[where], prepend=0, append=0))
        for first, end in edges.reshape(-1, 2).tolist():
            at = numbers.get(output.buffer.name, output.buffer.address + first)
            known.append((at, memory.content[where][first:end].tobytes()))
    everything = slice(0, len(memory.content))
    return Left(
        known=tuple(known),
        why=why_unknown(ran),
        inexact=ran.execution.reasons(everything),
        notes=tuple(_races(binary, replace(launch, uncompared=""), settings)) if races else (),
    )


def _races(binary: Binary, launch: Launch, settings: EmulationSettings) -> Iterator[str]:
    """Yield the races and deadlocks of a launch, and why some may not be found."""
    kernel = kernel_id(binary.symbol)
    try:
        counts = counts_of(binary, launch, replace(settings, races=True), unheard)
    except NcuSwizzleError as error:
        yield f"{kernel.name}: not searched for races: {error}."
        return
    profile = profile_of_counts(kernel, {}, binary=binary, launch=launch, counts=counts, compiler="")
    yield from warnings_about(kernel.name, profile)
    if unsure := [each.reason for each in profile.unknowns if each.code == codes.UNCHECKED_ORDER]:
        yield f"{kernel.name}: not every access was checked for races: {unsure[0]}."


def joined(buffers: Sequence[CapturedBuffer]) -> Iterator[CapturedBuffer]:
    """Yield allocations that came in pieces, known and unknown ones."""
    pieces = sorted(buffers, key=lambda each: each.address)
    while pieces:
        first = pieces.pop(0)
        while pieces and pieces[0].address == first.address + first.bytes:
            first = CapturedBuffer(first.address, first.bytes + pieces.pop(0).bytes)
        yield first


def outputs_of(captured: CapturedLaunch, binary: Binary) -> Iterator[Remains]:
    """Yield the launch's buffers and its variables in global memory."""
    words = {
        word: f"parameter {number}" if len(parameter.bytes) == 8 else f"parameter {number}+{at}"
        for number, parameter in reversed([*enumerate(captured.parameters)])
        for at in range(0, len(parameter.bytes) - 7, 8)
        for (word,) in (struct.unpack_from("<Q", parameter.bytes, at),)
    }
    variables = emulated_launch.variables(binary.cubin)
    outputs = captured.outputs or (Contents(),) * len(captured.parts)
    for part, after in zip(captured.parts, outputs, strict=True):
        if isinstance(part, CapturedBuffer):
            inside = (name for word, name in words.items() if part.address <= word < part.address + part.bytes)
            name = next(inside, f"buffer at {part.address:#x}")
            yield Remains(Buffer(name, part.address, part.bytes), part.contents, after)
        elif part.name in variables:
            yield Remains(Buffer(part.name, *variables[part.name]), part.contents, after)


def with_buffers(launch: Launch, binary: Binary, outputs: tuple[Remains, ...]) -> Launch:
    """Return a launch with its buffers and the sections of its module's variables: their contents may be unknown."""
    buffers = [output.buffer for output in outputs if output.buffer.address < emulated_launch.GLOBALS]
    sections = emulated_launch.sections(binary.cubin)
    buffers += [Buffer(section, start, size) for section, start, size in sections if size]
    return replace(launch, buffers=tuple(buffers))


def _compared(file: LaunchesFile, ran: ExecutedLaunch, output: Remains, where: slice) -> CheckedOutput:
    memory, size = ran.execution.memory, output.buffer.size
    unit = WORD if size % WORD == 0 else 1
    found = memory.content[where]
    known: Bools = np.asarray(memory.known[where].reshape(-1, unit).all(axis=1))
    wrong, inexact = "", ran.execution.reasons(where)
    if not output.after.sha256:
        known[:] = False
    elif output.after.sha256 in file.manifest.memory:
        wanted = np.frombuffer(file.memory(output.after.sha256), np.uint8)
        differ = known & (found != wanted).reshape(-1, unit).any(axis=1)
        if differ.any():
            wrong, inexact = _first_difference(ran, where, unit, np.flatnonzero(differ), wanted)
    elif not known.all():
        known[:] = False  # of what was captured there is only the digest
    elif cache.sha256(found.tobytes()) != output.after.sha256:
        wrong = "it differs from the GPU's, of which the file has only the SHA-256"
    lost = int(np.count_nonzero(~known))
    return CheckedOutput(
        name=output.buffer.name,
        problem={},
        checked=len(known) - lost,
        elements=len(known),
        blocks=ran.execution.ran,
        all_blocks=math.prod(ran.launch.grid),
        error=None if wrong else 0.0,
        tolerance=0.0,
        wrong=wrong,
        inexact=inexact,
        unknown=f"{lost:,} elements: {output.after.why or why_unknown(ran)}" if lost else "",
    )


def _first_difference(
    ran: ExecutedLaunch, where: slice, unit: int, words: Ints, wanted: np.ndarray
) -> tuple[str, tuple[str, ...]]:
    """Say how many words differ, and which one first; and what is not bit-exact if that reaches all of them.

    Where it does not, the first word that it does not reach is named.
    """
    memory = ran.execution.memory
    writers = memory.by[where.start + words * unit]
    unexplained = [by for by in np.unique(writers).tolist() if by <= 0 or not ran.execution.marks.get(by - 1)]
    shown = words[np.isin(writers, unexplained)] if unexplained else words
    at = int(shown[0]) * unit
    place = where.start + at
    number = f"0x%0{2 * unit}x"
    here, there = (
        number % int.from_bytes(each.tobytes(), "little")
        for each in (memory.content[place : place + unit], wanted[at : at + unit])
    )
    writer = ran.writer_at(place) or "which nothing has written here"
    inexact = () if unexplained else ran.execution.reasons(where.start + words * unit)
    return f"{len(words):,} differ from the GPU's: at +{at:#x} is {here}, not {there}, {writer}", inexact
