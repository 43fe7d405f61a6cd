"""A kernel prepared to run: its control flow, and a step for each instruction whose result matters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.emulate import accesses, copies, memory, operands, syncs, tensor_memory, traffic  # noqa: F401  they register steps
from ncu_swizzle.emulate.code import BARRIER, LOW, REG, Code, Sass, SassInstruction, parse_instruction
from ncu_swizzle.emulate.contents import forget_local, lose_arrays, lose_everything
from ncu_swizzle.emulate.effects import (
    INITIALISES,
    REGISTERS,
    Effects,
    effects,
    is_control,
    numbers_in,
    operand_number,
    reading_guard,
    steers,
    wgmma_shape,
)
from ncu_swizzle.emulate.events import Kind
from ncu_swizzle.emulate.faults import Restart, blaming, mistake
from ncu_swizzle.emulate.flow import Flow
from ncu_swizzle.emulate.liveness import NOTHING_MORE, Demand, Slice, TimedBranches, needed, read_alike, timing
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import MAKERS, Step, Use, both, executes
from ncu_swizzle.emulate.operations import exchange, floats, integers, special  # noqa: F401  they register opcodes
from ncu_swizzle.emulate.order_steps import fences_by_guard, order_step
from ncu_swizzle.emulate.patterns import Vector, vectors
from ncu_swizzle.emulate.registers import Guards
from ncu_swizzle.emulate.state import Decided
from ncu_swizzle.emulate.traffic import Tallies
from ncu_swizzle.emulate.values import Value
from ncu_swizzle.smem.descriptors import warpgroup_wavefronts
from ncu_swizzle.smem.opcodes import Shared, UnknownResult, opcodes_with
from ncu_swizzle.smem.operations import Ints


@executes(*opcodes_with(lambda row: row.shared is Shared.WGMMA))
def _wgmma(instruction: SassInstruction, use: Use) -> Step:
    """Return the step that counts a wgmma. Its descriptors do not matter; its results are unknown."""
    index = use.index
    guard = operands.guard_operands(instruction.guard)
    wavefronts = _wavefronts(instruction)

    def step(m: Machine) -> None:
        condition = guard(m) if guard else None
        selected, doubtful = m.certain_mask(condition)
        if wavefronts is None:
            m.log.miss(index, "no rule is known for the wavefronts of this shape", None, codes.NO_RULE)
        elif doubtful.any():
            m.log.miss(index, Decided.PREDICATE, condition.origin if condition else None)
        else:
            m.log.record_wgmma(index, m.view_blocks()[selected.any(axis=1)], wavefronts)

    return both(step, _forgetting(instruction, index) if use.matters else None)


def _wavefronts(instruction: SassInstruction) -> int | None:
    """Return the wavefronts of a warpgroup; None for an unknown shape."""
    columns, _ = wgmma_shape(instruction)
    if not columns or len(instruction.operands) < 2:
        return None
    return warpgroup_wavefronts(columns, instruction.operands[1].kind != REG, instruction.has("SP"))


MOST_PARSED = 4  # kernels, kept for a launch of another size

Probe = Callable[[SassInstruction], Step | None]
StandIn = Callable[[SassInstruction, int], Step | None]

_READ_UNWRITTEN = UnknownResult("reads a register that nothing wrote", codes.UNWRITTEN)
_OTHER = UnknownResult("unknown", codes.NOT_EMULATED)  # the emulator does not compute it


@dataclass(frozen=True, eq=False, kw_only=True)
class PreparedCode:
    """Instructions by index, and for each basic block the steps that matter."""

    instructions: Sequence[SassInstruction]
    flow: Flow
    effects: Sequence[Effects]
    steps: Sequence[Step | None]
    runs: dict[int, tuple[tuple[int, Step], ...]]
    guards: Guards
    contents: bool
    timing: TimedBranches
    live: Mapping[int, int]  # by basic block: the registers that matter before it
    untracked: frozenset[int]  # they act on more than registers and memory: see `Loops.untracked`
    unsupported: frozenset[int]  # indices of instructions whose results matter but that are not emulated
    externals: Mapping[int, str]  # functions outside of the code, by the lower half of their address
    allocates: bool  # whether it allocates tensor memory, for which words of the reserved shared memory begin as 0
    failures: dict[int, str] = field(default_factory=dict)  # by index: how the emulator failed on an instruction
    unwritten: set[int] = field(default_factory=set)  # instructions that have read a register that nothing wrote
    tallies: Tallies | None = None  # what is counted besides issues and wavefronts, if anything
    vectors: Mapping[int, Vector] = field(default_factory=dict)  # by access to global memory, if that is counted
    alone: bool = False  # whether this is for a run that takes some counts alone, in which no warp waits for another
    ends: frozenset[int] = frozenset()  # there, basic blocks from which on nothing is counted
    apart: bool = False  # whether there can be such a run
    probed: bool = False  # whether a probe's steps run, too: they see only what certainly happens

    def source_of(self, origin: int | None) -> str:
        """Describe where an unknown value came from."""
        if origin is None:
            return "something unknown"
        instruction = self.instructions[origin]
        what = "is not emulated" if origin in self.unsupported else self._origin(origin).words
        what = "the emulator fails on it" if origin in self.failures else what
        return f"{instruction.text} at {instruction.offset:#x} ({what})"

    def cause_of(self, origin: int | None) -> str:
        """Return the code for something unknown because of an instruction, or of an unwritten register."""
        if origin is None:
            return codes.UNWRITTEN
        if origin in self.unsupported or origin in self.failures:
            return codes.NOT_EMULATED
        return self._origin(origin).code

    def _origin(self, origin: int) -> UnknownResult:
        other = _READ_UNWRITTEN if origin in self.unwritten else _OTHER
        return self.instructions[origin].row.cause or other


def prepare(
    code: Code, wanted: Demand = NOTHING_MORE, probe: Probe | None = None, instead: StandIn | None = None
) -> PreparedCode:
    """Return the prepared code.

    `probe` returns a step to run before an instruction, `instead` one to run in its place.
    """
    instructions = _all_parsed(code.instructions)
    flow = Flow(instructions, code.functions)
    wanted = replace(wanted, probed=probe is not None)
    needs = needed(flow, wanted)
    tallies = None
    if wanted.traffic:  # the same rows whatever else is wanted: counts of several runs are added up
        other = wanted.order or wanted.counted
        only_traffic = replace(wanted, order=False, valued=frozenset(), counted=frozenset())
        counted = needed(flow, only_traffic) if other else needs
        tallies = Tallies.of(flow, counted.effects, counted.alive_after)
    # If no warp reads what another writes, a warp's way is its own: some threads can be counted without the others.
    apart = not (needs.others or wanted.counted or any(each.has("SPIN") for each in instructions))
    steps: list[Step | None] = []
    unsupported = set()
    failures: dict[int, str] = {}
    for index, instruction in enumerate(instructions):
        with blaming(instruction):
            stand_in = instead(instruction, index) if instead and not instruction.never else None
            idle = wanted.counted and not needs.needed[index] and not steers(instruction)
            step, emulated = (
                (stand_in, True)
                if stand_in or idle
                else _enduring_step(instruction, index, needs, read_alike(flow, needs, index), failures)
            )
            if step and not stand_in and accesses.ends_spin_loop(instructions, flow.first(index), index):
                step = accesses.SpinLoop(instruction, index, step).step
            before = [probe(instruction)] if probe else []
            if tallies and (not wanted.counted or index in wanted.counted):
                before += [tallies.step(instruction, index, apart=apart), traffic.traffic_step(instruction, index)]
            before += [_awaiting(instruction, code), _noting(instruction)] if wanted.order else []
        for first in reversed(before):
            step = both(first, step) if first else step
        steps.append(step)
        if not emulated:
            unsupported.add(index)
    runs = {
        leader: tuple(
            (index, step) for index in range(leader, flow.last[leader] + 1) if (step := steps[index]) is not None
        )
        for leader in flow.leaders
    }
    guards, waits = tuple(map(reading_guard, instructions)), timing(flow, needs.effects)
    externals = {address & LOW: name for address, name in code.externals.items()}
    return PreparedCode(
        instructions=instructions,
        flow=flow,
        effects=needs.effects,
        steps=steps,
        runs=runs,
        guards=guards,
        contents=needs.shared,
        timing=waits,
        live=needs.live,
        untracked=frozenset(index for index, instruction in enumerate(instructions) if instruction.row.untracked),
        unsupported=frozenset(unsupported),
        externals=externals,
        allocates=any(instruction.opcode == "UTCATOMSWS" for instruction in instructions),
        failures=failures,
        tallies=tallies,
        apart=apart,
        vectors=vectors(flow, needs.effects) if tallies and not wanted.counted else {},
        alone=bool(wanted.counted),
        ends=frozenset(flow.leaders) - flow.leading_to(wanted.counted) if wanted.counted else frozenset(),
        probed=probe is not None,
    )


def parse(code: Code) -> None:
    """Parse a kernel's code, and find out what its instructions read and write: once for all later forks."""
    for instruction in _all_parsed(code.instructions):
        effects(instruction)


@lru_cache(maxsize=MOST_PARSED)
def _all_parsed(code: tuple[Sass, ...]) -> tuple[SassInstruction, ...]:
    parsed = list(map(_parsed, code))
    for index, instruction in enumerate(parsed):
        if instruction.mnemonic == "SYNCS.CCTL.IVALL":  # mbarriers that lanes have initialised by stores begin here
            for number in range(index - 1, -1, -1):
                store = parsed[number]
                if is_control(store) or store.opcode == "SYNCS":
                    break
                if store.opcode == "STS" and store.has("64", "128"):
                    parsed[number] = replace(store, modifiers=(*store.modifiers, INITIALISES))
    return tuple(parsed)


def _parsed(sass: Sass) -> SassInstruction:
    with blaming(sass):
        return parse_instruction(sass)


def _enduring_step(
    instruction: SassInstruction, index: int, needs: Slice, alike: bool, failures: dict[int, str]
) -> tuple[Step | None, bool]:
    """Return what `_step` does. If it or its step fails, all that the instruction may write becomes unknown.

    A bug in the emulator at one instruction should not cost the counts of all others; `failures` names it. Where all
    stores to global memory are recorded, to be compared, one could be missing: there it stays an error.
    """
    try:
        step, emulated = _step(instruction, Use(index, needs.needed[index], needs.shared))
        if step and emulated and alike:
            step = _despite_its_guard(instruction, step)
    except Exception as error:  # always a bug in the emulator
        failures[index] = mistake(error)
        return _losing(instruction, index), True
    if step is None:
        return None, emulated

    def enduring(m: Machine) -> None:
        try:
            step(m)
        except (NcuSwizzleError, MemoryError, Restart):
            raise
        except Exception as error:
            if m.stores is not None:
                raise
            failures.setdefault(index, mistake(error))
            _losing(instruction, index)(m)

    return enduring, emulated


def _despite_its_guard(instruction: SassInstruction, step: Step) -> Step:
    """Return a step that computes despite an unknown guard; the step itself if the instruction does more."""
    guard = operands.guard_operands(instruction.guard)
    if guard is None or instruction.row.across_lanes:
        return step
    anyhow = operands.compiled_step(replace(instruction, guard=None))
    if anyhow is None:
        return step

    def despite(m: Machine) -> None:
        (step if guard(m).certain else anyhow)(m)

    return despite


def _losing(instruction: SassInstruction, index: int) -> Step:
    """Return the step that makes unknown everything the instruction may have done."""
    forget, opcode = _forgetting(instruction, index), instruction.opcode
    if instruction.row.shared is Shared.NO and not effects(instruction).writes >> REGISTERS:
        return forget

    def lose(m: Machine) -> None:
        forget(m)
        if instruction.row.may_be_counted:
            m.log.miss(index, f"what {opcode} accesses", index, codes.NOT_EMULATED)
        lose_everything(m, index)
        lose_arrays(m)
        forget_local(m, index)
        m.mbarriers.doubt(m.clusters.around(m.view_blocks()))

    return lose


def _step(instruction: SassInstruction, use: Use) -> tuple[Step | None, bool]:
    """Return the step of an instruction, if it matters, and whether its results are emulated."""
    row = instruction.row
    if is_control(instruction) or instruction.never:
        return None, True
    if not row.modelled:
        return both(_unmodelled(instruction, use.index), _forgetting(instruction, use.index)), not use.matters
    if row.name in MAKERS:
        return MAKERS[row.name](instruction, use), True
    if not use.matters or row.shared is Shared.UNCOUNTED:
        return None, True
    step = operands.compiled_step(instruction)
    return step or _forgetting(instruction, use.index), step is not None or row.data


def _noting(instruction: SassInstruction) -> Step | None:
    """Return the step of an ordering instruction: run while events are noted, or if it tells blocks apart."""
    step = order_step(instruction)
    if step is None or fences_by_guard(instruction):
        return step
    return lambda m: step(m) if m.notes else None


def _awaiting(instruction: SassInstruction, code: Code) -> Step | None:
    """Return the step of an instruction that waits for tcgen05.ld, or is one."""
    ended = code.awaited.get(instruction.offset)
    return None if ended is None else lambda m: m.note(Kind.LOADED, m.view.warps, ended)


@executes("BMOV")
def _barrier_move(instruction: SassInstruction, _: Use) -> Step:
    """Return the step that saves a convergence barrier to a register or restores it."""
    target, source = instruction.operands[:2]
    if source.kind == BARRIER:

        def save(m: Machine) -> None:
            tokens = m.tokens[source.number]
            m.put(operand_number(target), Value(tokens[m.view.warps].astype(np.uint32)))
            if instruction.has("CLEAR"):
                _note_missable(m, tokens[m.view.warps])
                tokens[m.view.warps] = np.where(m.view.mask, 0, tokens[m.view.warps])

        return save
    read = operands.raw(source)

    def restore(m: Machine) -> None:
        tokens = m.tokens[target.number]
        tokens[m.view.warps] = np.where(m.view.mask, read(m).bits, tokens[m.view.warps])

    return restore


def _note_missable(m: Machine, tokens: Ints) -> None:
    """Note where threads reconverge if some lanes save their barrier now, in a function they called, and others do not.

    Threads that arrive earlier wait for those lanes, later ones do not: an H100 was seen to do both, in recursion
    that ends at different depths. `tokens`, (G, 32), are the barrier's before.
    """
    others = m.live[m.view.warps] & ~m.view.mask & (tokens != 0)
    for row in np.flatnonzero(others.any(axis=1)):
        shared = np.intersect1d(tokens[row][others[row]], tokens[row][m.view.mask[row]])
        m.missable.update({m.targets[token]: m.now for token in shared.tolist()})


def _forgetting(instruction: SassInstruction, index: int) -> Step:
    """Return the step that makes the results unknown."""
    written = numbers_in(effects(instruction).writes)
    guard = operands.guard_operands(instruction.guard)
    return lambda m: m.forget(written, index, guard(m) if guard else None)


@executes(*opcodes_with(lambda row: row.shared is Shared.TCGEN05))
def _tcgen05(instruction: SassInstruction, use: Use) -> Step:
    """Return the step of an instruction that reads tiles and has no known count."""
    reason = f"what ncu counts for {instruction.opcode} has not been measured: its rule is not known"
    forget = _forgetting(instruction, use.index) if use.matters else None
    return both(lambda m: m.log.miss(use.index, reason, None, codes.NO_RULE), forget)


def _unmodelled(instruction: SassInstruction, index: int) -> Step:
    """Return the step of an opcode that may access shared memory in an unmodelled way."""
    reason = f"whether {instruction.opcode} accesses shared memory, and how, is not modelled"

    def step(m: Machine) -> None:
        m.log.miss(index, reason, None, codes.NOT_EMULATED)
        lose_everything(m, index)
        lose_arrays(m)

    return step
