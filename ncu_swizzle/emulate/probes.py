"""Compare the known addresses of global accesses with the known buffers of the launch.

A separate program runs the corners of the grid and some of the blocks that represent the others: it also computes what
global addresses need, which counting wavefronts does not. Nothing is claimed about an access whose address, predicate
or execution is unknown, nor about addresses far from all buffers, which the caller may have passed as numbers.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ncu_swizzle.base.errors import NcuSwizzleError, ProgramFailed
from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import access_width, memory_operands
from ncu_swizzle.emulate.blocks import Setting, numbered, run_batch
from ncu_swizzle.emulate.code import LOCAL_WINDOW, PRED, SHARED_WINDOW, Code, SassInstruction
from ncu_swizzle.emulate.contents import drawn_memory
from ncu_swizzle.emulate.copies import zero_fill
from ncu_swizzle.emulate.counts import NULL_PAGE, Buffer, GlobalAccesses, OutOfBounds
from ncu_swizzle.emulate.faults import Restart
from ncu_swizzle.emulate.global_races import FAR, GlobalLog
from ncu_swizzle.emulate.liveness import Demand
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Step
from ncu_swizzle.emulate.program import prepare
from ncu_swizzle.emulate.race_check import RaceCheck
from ncu_swizzle.emulate.requests import COMPARED_EFFORT, KINDS, Clock, blocks_at_once
from ncu_swizzle.emulate.values import Value, known_in
from ncu_swizzle.smem.access import Index
from ncu_swizzle.smem.opcodes import Copy, Memory
from ncu_swizzle.smem.operations import Bools, Ints

NEAR = 1 << 32  # bytes from a buffer: an address farther away may be of memory that the caller knows of
MOST_FIRST = 256  # blocks of a grid that are compared if it is not known which ones share words


@dataclass(frozen=True)
class _Map:
    """The buffers, by address."""

    buffers: tuple[Buffer, ...]
    starts: Ints
    ends: Ints

    @classmethod
    def of(cls, buffers: Sequence[Buffer]) -> _Map:
        ordered = tuple(sorted(buffers, key=lambda buffer: buffer.address))
        starts = np.array([buffer.address for buffer in ordered], np.int64)
        return cls(ordered, starts, starts + np.array([buffer.size for buffer in ordered], np.int64))

    def inside(self, at: Ints, width: int) -> tuple[Ints, Bools]:
        """Return the buffer before each access, and whether the access is inside of it."""
        before: Ints = np.maximum(np.searchsorted(self.starts, at, "right") - 1, 0)
        return before, (at >= self.starts[before]) & (at + width <= self.ends[before])

    def outside(self, at: Ints, before: Ints, inside: Bools) -> Bools:
        """Return which accesses are certainly outside of all buffers."""
        after = np.minimum(before + 1, len(self.starts) - 1)
        near = (np.abs(at - self.ends[before]) < NEAR) | (np.abs(self.starts[after] - at) < NEAR)
        window = np.isin(at >> 32, (SHARED_WINDOW, LOCAL_WINDOW))
        null = (at >= 0) & (at < NULL_PAGE)
        certain: Bools = ~inside & ((near & ~window) | null)
        return certain


class Probes:
    """The steps that check the global accesses of a program, and those out of bounds, by instruction."""

    def __init__(self, buffers: Sequence[Buffer], log: GlobalLog | None = None) -> None:
        self.log = log  # keeps the accesses, to compare them
        self.map = _Map.of(buffers)
        self.outside: dict[int, OutOfBounds] = {}  # by offset: an instruction's first one, and how many there are
        self.reached: dict[int, set[str]] = {}  # by instruction's number: the buffers that it accesses
        self.through: dict[int, set[int]] = {}  # the instructions that its unknown addresses come from

    def step(self, instruction: SassInstruction) -> Step | None:
        """Return the step that checks an instruction's accesses; None if it makes none to global memory."""
        if not instruction.row.global_access or instruction.never or not memory_operands(instruction):
            return None
        guard, copies = operands.guard_operands(instruction.guard), instruction.row.copy is Copy.ASYNC
        memory = instruction.operands[memory_operands(instruction)[1 if copies else 0]]
        read_address = operands.wide_address(memory, followed=True)
        # A copy that may write zeros may also read less than its width.
        width = 1 if zero_fill(instruction) else access_width(instruction)
        filled = next((o for o in instruction.operands[::-1] if o.kind == PRED), None) if copies else None
        read_filled = operands.predicate(filled) if filled else None

        def step(m: Machine) -> None:
            condition, address = guard(m) if guard else None, read_address(m)
            reads = read_filled(m) if read_filled else None
            # This may differ in iterations that the one that runs represents.
            tags = [value.tag for value in (condition, reads, address) if value is not None]
            if m.repeats.active and any(tag is not None and tag.loops for tag in tags):
                m.repeats.fail()
            selected, doubtful = m.selection(condition)
            if self.log is not None and (doubtful.any() or not known_in(address, selected)):
                self.log.doubt([m.now])
            if reads is not None:
                selected = selected & reads.bits & np.asarray(reads.known)
            if address.origin is not None and not known_in(address, selected | doubtful):
                self.through.setdefault(m.now, set()).add(address.origin)
            known = np.asarray(address.known)
            self._see(m, instruction, address, selected & known, doubtful & known, width)

        return step

    def _see(
        self, m: Machine, instruction: SassInstruction, address: Value, selected: Bools, doubtful: Bools, width: int
    ) -> None:
        """Compare what lanes access, or may, at known addresses with the buffers."""
        lanes = selected | doubtful
        if not lanes.any():
            return
        at = np.broadcast_to(address.bits, selected.shape).astype(np.uint64).view(np.int64)
        if self.log is not None and selected.any():
            self.log.add(m, instruction, at, selected, width, address.tag)
        before, inside = self.map.inside(at, width)
        names = (self.map.buffers[number].name for number in np.unique(before[inside & lanes]))
        self.reached.setdefault(m.now, set()).update(names)
        wrong = selected & self.map.outside(at, before, inside)
        if wrong.any() and m.repeats.active:
            m.repeats.fail()  # it runs again, and every time is counted
        elif wrong.any():
            self._report(m, instruction, at, wrong)

    def _report(self, m: Machine, instruction: SassInstruction, at: Ints, wrong: Bools) -> None:
        """Record the wrong lanes, (G, 32), of an instruction, with the addresses of all."""
        row, lane = np.argwhere(wrong)[0].tolist()
        thread, block = m.whose(row, lane)
        first = self.outside.get(instruction.offset) or OutOfBounds.of(
            self.map.buffers,
            offset=instruction.offset,
            does=instruction.row.does(Memory.GLOBAL),
            width=access_width(instruction),
            address=int(at[row, lane]),
            thread=thread,
            block=block,
            times=0,
        )
        self.outside[instruction.offset] = replace(first, times=first.times + int(wrong.sum()))

    def buffers(self) -> dict[int, tuple[str, ...]]:
        """Return the buffers that each instruction's data comes from: also those that hold its unknown addresses."""
        numbers = sorted({*self.reached, *self.through})
        return {number: tuple(sorted(self._sources(number, set()))) for number in numbers}

    def _sources(self, number: int, visited: set[int]) -> set[str]:
        if number in visited:
            return set()
        visited.add(number)
        further = [self._sources(origin, visited) for origin in self.through.get(number, ())]
        return self.reached.get(number, set()).union(*further)


def global_accesses(
    code: Code,
    setting: Setting,
    buffers: Sequence[Buffer],
    ran: Sequence[Index],
    exhaustive: bool,
    races: RaceCheck | None = None,
) -> GlobalAccesses:
    """Run some blocks, and return what they access outside of the buffers; their races go to `races`.

    Those are the corners of the grid, the neighbours of the first block, and the blocks that `ran`; all blocks if
    `exhaustive`.
    """
    if not buffers:
        return GlobalAccesses()
    everything = exhaustive and math.prod(setting.grid) <= KINDS
    blocks = numbered(setting.grid) if everything else np.array(list(dict.fromkeys([*corners(setting.grid), *ran])))
    compared = np.unique(np.concatenate([blocks, _neighbours(setting.grid)]), axis=0) if races else blocks
    try:
        probes = _run(code, setting, buffers, compared, log=races is not None)
        if probes.log is not None and not everything:
            probes, compared = _far(code, setting, buffers, probes, compared)
        if races is not None and probes.log is not None:
            stores = probes.log.racing_stores()
            log = _valued(code, setting, buffers, compared, stores) if stores else None
            races_found, lacking = probes.log.hazards()
            if log is not None:  # only the values, of what was drawn
                values, pairs = log.hazards()[0], {key[1:] for key in races_found}
                compared_too = {key[1:] for key in values}
                races_found = {key: each for key, each in races_found.items() if key[1:] not in compared_too}
                races_found |= {key: each for key, each in values.items() if key[1:] in pairs}
            races.found.update(races_found)
            races.lacking.update(lacking)
    except ProgramFailed as error:
        return GlobalAccesses(lacking=str(error))
    outside = tuple(probes.outside[offset] for offset in sorted(probes.outside))
    named = {code.instructions[number].offset: names for number, names in probes.buffers().items()}
    return GlobalAccesses(outside=outside, blocks=len(blocks), buffers=named)


def _far(
    code: Code, setting: Setting, buffers: Sequence[Buffer], probes: Probes, compared: Ints
) -> tuple[Probes, Ints]:
    """Return the accesses of further blocks, and these: those that may share words with others far away.

    If it is not known which do, these are the first ones of the grid, all if it is small.
    """
    assert probes.log is not None
    far = np.array(probes.log.far(setting.grid), np.int64).reshape(-1, 3)
    unknown = FAR in probes.log.lacking
    if not unknown and not len(far):
        return probes, compared
    first = numbered(setting.grid, 0, min(MOST_FIRST, math.prod(setting.grid)) if unknown else 0)
    more = np.unique(np.concatenate([compared, far, first]), axis=0)
    clock = Clock(timeout_s=setting.clock.left_s, most_effort=COMPARED_EFFORT)
    further = probes
    with contextlib.suppress(NcuSwizzleError, Restart):
        further = _run(code, replace(setting, clock=clock), buffers, more, log=True)
    if further is probes or further.log is None or further.log.lacking.keys() - probes.log.lacking.keys():
        probes.log.lacking.setdefault(FAR, None)
        return probes, compared
    if unknown and len(more) < math.prod(setting.grid):
        further.log.lacking[FAR] = probes.log.lacking[FAR]
    return further, more


def corners(grid: Index) -> list[Index]:
    """Return the blocks at the corners of a grid."""
    ends = [sorted({0, size - 1}) for size in grid]
    return [(x, y, z) for z, y, x in itertools.product(*ends[::-1])]


def _neighbours(grid: Index) -> Ints:
    """Return the blocks next to the first one: what neighbours share, these share with it."""
    return np.array([[int(axis == at) for at in range(3)] for axis in range(3) if grid[axis] > 1], np.int64).reshape(
        -1, 3
    )


def _valued(
    code: Code, setting: Setting, buffers: Sequence[Buffer], blocks: Ints, stores: frozenset[int]
) -> GlobalLog | None:
    """Return the accesses with the values of racing stores, in a sample of unknown inputs; None if it takes long."""
    clock = Clock(timeout_s=setting.clock.left_s, most_effort=COMPARED_EFFORT)
    drawn = drawn_memory(buffers, setting.memory)
    try:
        log = _run(code, replace(setting, clock=clock, memory=drawn), buffers, blocks, log=True, valued=stores).log
        if log is not None:
            log.sampled = len(drawn) > len(setting.memory)
        return log
    except (NcuSwizzleError, Restart):
        return None


def _run(
    code: Code,
    setting: Setting,
    buffers: Sequence[Buffer],
    blocks: Ints,
    *,
    log: bool,
    valued: frozenset[int] = frozenset(),
) -> Probes:
    """Return what the blocks access."""
    probes = Probes(buffers)
    program = prepare(code, Demand(arrays=bool(setting.memory), valued=valued), probes.step)
    if log:
        cluster = math.prod(setting.cluster)
        probes.log = GlobalLog(program.instructions, setting.block, buffers, cluster, valued)
    setting = replace(setting, program=program)
    x, y, z = setting.block
    shared = setting.shared_size if program.contents else 0
    size = blocks_at_once(x * y * z, shared, 0, len(program.instructions))
    for first in range(0, len(blocks), size):
        batch = run_batch(setting, blocks[first : first + size])
        if probes.log is not None:
            probes.log.doubt(batch.machine.unknown)
    return probes
