"""Execute all blocks of a launch on known memory: what they leave there, and what of it is not bit-exact.

Whatever is not computed as hardware does it (`why_inexact`) marks what it writes. The marks are not carried along:
they follow from the code, as liveness does, register by register, and from what instructions were seen to load of what
others had stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ncu_swizzle.emulate import atomics, operands
from ncu_swizzle.emulate.arrivals import arrival
from ncu_swizzle.emulate.blocks import Setting, numbered, run_batch
from ncu_swizzle.emulate.code import Code, SassInstruction
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.data_steps import DataAccess, accesses_data, arriving_step, matrix_step
from ncu_swizzle.emulate.device_memory import KEPT, MARKED_BEFORE, NO_PAGE, UNTOUCHED, DeviceMemory, DrawnMemory
from ncu_swizzle.emulate.effects import REGISTERS, Effects, effects
from ncu_swizzle.emulate.effects import results as written
from ncu_swizzle.emulate.liveness import Demand, depending
from ncu_swizzle.emulate.machine import known_constants
from ncu_swizzle.emulate.operands import Step, Use, both
from ncu_swizzle.emulate.products import exact, product_step
from ncu_swizzle.emulate.program import PreparedCode, prepare
from ncu_swizzle.emulate.requests import Clock, blocks_at_once
from ncu_swizzle.emulate.run import setting_of
from ncu_swizzle.smem.opcodes import Copy, Memory
from ncu_swizzle.smem.operations import Bools, Ints

EVERY_REGISTER = (1 << REGISTERS) - 1
_BEFORE = "an earlier launch"


def why_inexact(instruction: SassInstruction) -> str:
    """Return what of an instruction's results is not as on hardware, or not defined there; "" if they are exact."""
    row = instruction.row
    if row.products and not exact(instruction):
        return "the accumulation of tensor cores that an H100 does not have, not measured"
    if row.atomic and atomics.floating(instruction):
        return "a floating-point sum, which depends on the order of threads"
    if row.atomic and any(number < REGISTERS for number in _results(instruction)):
        return "what an atomic returns, which depends on the order of threads"
    return ""


def _results(instruction: SassInstruction) -> list[int]:
    return [number for number in range(REGISTERS) if effects(instruction).writes >> number & 1]


def data_step(instruction: SassInstruction, index: int) -> Step | None:
    """Return the step that computes an instruction's data; None if the ordinary one does."""
    # The ordinary step checks addresses and counts; that it leaves no results behind is for the one that computes them.
    row, use = instruction.row, Use(index, matters=False, contents=False)
    if accesses_data(instruction):
        return DataAccess(instruction, index).step
    ordinary = operands.MAKERS.get(row.name)
    if row.products:
        step = product_step(instruction)
        counted = ordinary(instruction, use) if ordinary else None
        return both(counted, step) if counted and step else step
    if row.matrix or row.copy is Copy.ASYNC:
        step = matrix_step(instruction) if row.matrix else arriving_step(instruction)
        counted = ordinary(instruction, use) if ordinary else None
        return both(counted, step) if counted and step else None
    if row.copy in (Copy.BULK, Copy.TENSOR):
        return arrival(instruction, ordinary(instruction, use) if ordinary else None)
    return None


@dataclass(frozen=True, eq=False, kw_only=True)
class Execution:
    """What blocks of a launch have left in memory."""

    memory: DeviceMemory
    program: PreparedCode
    marks: Mapping[int, tuple[str, ...]]  # by instruction that writes global memory: what reaches it and is not exact
    ran: int  # blocks
    issued: int  # instructions of warps
    unknown: tuple[str, ...]  # instructions whose results are not computed, and that were executed

    def reasons(self, places: slice | Ints) -> tuple[str, ...]:
        """Return what is not bit-exact about some bytes."""
        writers = np.unique(self.memory.by[places]).tolist()
        found = [self.marks.get(by - 1, ()) if by > 0 else (_BEFORE,) * (by == MARKED_BEFORE) for by in writers]
        return tuple(dict.fromkeys(reason for each in found for reason in each))

    def settle(self, initial: Mapping[int, bytes]) -> None:
        """Forget who wrote what, before another launch; what is marked stays so, and what is not `initial` is kept."""
        memory = self.memory
        marked = [MARKED_BEFORE, *(number + 1 for number, reasons in self.marks.items() if reasons)]
        touched = np.flatnonzero(memory.by)
        memory.by[touched] = np.where(np.isin(memory.by[touched], marked), MARKED_BEFORE, UNTOUCHED)
        for address, content in initial.items():
            where = memory.span(address, len(content))
            memory.by[where][memory.content[where] != np.frombuffer(content, np.uint8)] = KEPT
        memory.read.clear()


def execute(code: Code, launch: Launch, memory: DeviceMemory, clock: Clock, blocks: Ints | None = None) -> Execution:
    """Execute blocks of a launch, (B, 3), by default all of them, one batch after the other.

    Blocks of a batch run side by side. Raises one of `faults`: an access outside of all buffers ends it, too.
    """
    program = prepare(code, Demand(everything=True, arrays=True), None, data_step)
    setting = replace(setting_of(code, launch, program, clock, shortcuts=False), device=memory)
    chosen = numbered(launch.grid) if blocks is None else blocks
    cluster = math.prod(launch.cluster)
    size = blocks_at_once(math.prod(launch.block), setting.shared_size, 0, len(program.instructions))
    executed: Bools = np.zeros(len(program.instructions), bool)
    issued = 0
    clock.blocks = len(chosen)
    for batch in _batches(chosen, launch, max(1, size // cluster) * cluster):
        issued += _run(setting, batch, memory, executed)
        clock.covered += len(batch)
    return Execution(
        memory=memory,
        program=program,
        marks=_marks(program, executed, memory.read),
        ran=len(chosen),
        issued=issued,
        unknown=_unknown(program, executed),
    )


def _batches(blocks: Ints, launch: Launch, size: int) -> Iterator[Ints]:
    """Yield the blocks in groups of whole clusters."""
    if math.prod(launch.cluster) > 1:
        corner = blocks // launch.cluster
        blocks = blocks[np.lexsort([*(blocks % launch.cluster).T, *corner.T])]
    for first in range(0, len(blocks), size):
        yield blocks[first : first + size]


def _run(setting: Setting, blocks: Ints, memory: DeviceMemory, executed: Bools) -> int:
    """Run a batch; return how many instructions its warps issued."""
    batch = run_batch(setting, blocks)
    ran = batch.issued.any(axis=1)
    executed |= ran
    for number, why in batch.machine.unknown.items():
        instruction = setting.program.instructions[number]
        if instruction.row.writes & (Memory.GLOBAL | Memory.SHARED) and not instruction.never:
            origin = "" if why.origin is None else f", which depends on {setting.program.source_of(why.origin)}"
            memory.lose(f"whether {instruction.text} executes{origin}")
    return int(batch.issued.sum())


def _unknown(program: PreparedCode, executed: Bools) -> tuple[str, ...]:
    """Return the mnemonics of executed instructions whose results are not computed."""
    numbers = sorted({*program.unsupported, *program.failures})
    found = [program.instructions[number] for number in numbers if executed[number]]
    found += [each for each, ran in zip(program.instructions, executed, strict=True) if ran and _computes_nothing(each)]
    return tuple(dict.fromkeys(each.mnemonic for each in found if written(each)))


def _computes_nothing(instruction: SassInstruction) -> bool:
    row = instruction.row
    if not row.data or row.name in operands.MAKERS or row.control or instruction.never:
        return False
    return data_step(instruction, 0) is None and operands.compiled_step(instruction) is None


# ---------------------------------------------------------------------------------------------- marks


def _marks(program: PreparedCode, executed: Bools, read: Mapping[int, set[int]]) -> dict[int, tuple[str, ...]]:
    """Return, for instructions that write global memory, what reaches them that is not bit-exact.

    `read`: which instructions loaded what which others had stored, as `DeviceMemory.read`.
    """
    sources: dict[str, set[int]] = {}
    for number in np.flatnonzero(executed).tolist():
        if why := why_inexact(program.instructions[number]):
            sources.setdefault(f"{program.instructions[number].mnemonic} ({why})", set()).add(number)
    before = {number for number, writers in read.items() if MARKED_BEFORE in writers}
    if before:
        sources[_BEFORE] = before
    flowing = [_flow_of(instruction) for instruction in program.instructions]
    marks: dict[int, tuple[str, ...]] = {}
    for name, numbers in sources.items():
        for number in sorted(_reached(program, flowing, numbers, read)):
            if program.instructions[number].row.writes & Memory.GLOBAL:
                marks[number] = (*marks.get(number, ()), name)
    return marks


def _flow_of(instruction: SassInstruction) -> Effects:
    """Return what flows through an instruction: memory but for global memory, where loads are known."""
    effect, row = effects(instruction), instruction.row
    kept = ~(int(Memory.GLOBAL) << REGISTERS)
    reads = effect.reads | int(row.reads) << REGISTERS | (EVERY_REGISTER if row.products else 0)
    return replace(effect, reads=reads & kept, writes=effect.writes & kept)


def _reached(
    program: PreparedCode, flowing: Sequence[Effects], numbers: set[int], read: Mapping[int, set[int]]
) -> frozenset[int]:
    """Return these instructions and all that depend on what they write, through global memory, too."""
    sources = frozenset(numbers)
    while True:
        reached = sources | depending(program.flow, flowing, sources)
        loads = {number for number, writers in read.items() if any(by - 1 in reached for by in writers if by > 0)}
        if loads <= sources:
            return reached
        sources |= loads


# ---------------------------------------------------------------------------------------------- versions
#
# Two versions of a kernel are told apart by what they leave in a memory that is drawn, the same for both: so a
# difference is real. Both have read the same, and act differently.


def left_behind(code: Code, launch: Launch, blocks: Ints, number: int, clock: Clock) -> Execution:
    """Execute some blocks, (B, 3), on the memory of a draw. Raises one of `faults`."""
    memory = DrawnMemory.of(number, launch.memory)
    banks = dict(launch.constants)
    for bank, known in known_constants(code, launch).items():  # what the host fills is drawn as well
        content = np.frombuffer(launch.constants.get(bank, code.constants.get(bank, b"")), np.uint8)
        banks[bank] = np.where(known, content, np.resize(memory.drawn(NO_PAGE + bank), len(content))).tobytes()
    return execute(code, replace(launch, constants=banks, unknown_constants={}), memory, clock, blocks)


def difference(old: Execution, new: Execution) -> str:
    """Describe how what the new version has left differs; empty if it does not, or is not known."""
    if untold(old) or untold(new):
        return ""
    (at, first), (other, second) = (each.memory.written() for each in (old, new))  # type: ignore[attr-defined]
    if not np.array_equal(at, other):
        return "other bytes are stored"
    known, still = old.memory.known[first], new.memory.known[second]
    differ = (old.memory.content[first] != new.memory.content[second]) & (known != 0)
    return "other values are stored" if (known != still).any() or differ.any() else ""


def untold(execution: Execution) -> str:
    """Return why it is not known what an execution has left; empty if it is."""
    return execution.memory.lost or next((f"{each} is not computed" for each in execution.unknown), "")
